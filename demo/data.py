"""The demo's people, chats and messages. The phone numbers are in a range reserved for fiction."""

from dataclasses import dataclass, field

from messaging.domain import Kind

PEOPLE = {
    "Ada Moreau": "+12025550110",
    "Ben Okafor": "+12025550111",
    "Chiara Lind": "+12025550112",
    "Dev Patel": "+12025550113",
    "Emi Tanaka": "+12025550114",
}
SUSPENDED = ("Finn Sorel", "+12025550115")
"""Name and number of somebody for staff to look at, who is in no chat and cannot log in."""


@dataclass(frozen=True, slots=True)
class DemoChange:
    """A change of the message `target`: an edit to `text`, a reaction with `emoji`, a deletion or a pin."""

    person: str
    kind: Kind
    target: int
    text: str = ""
    emoji: str | None = None


@dataclass(frozen=True, slots=True)
class DemoChat:
    """A chat to create. The first member is its creator; a direct chat has no name.

    `messages` are pairs of sender and text, "@" before a full name is a mention; `replies` maps messages to those they
    reply to. `changes` come after the messages. `read` has the last read sequence of each member.
    """

    key: str
    name: str | None
    members: tuple[str, ...]
    messages: tuple[tuple[str, str], ...]
    read: dict[str, int]
    replies: dict[int, int] = field(default_factory=dict)
    changes: tuple[DemoChange, ...] = ()


ADA, BEN, CHIARA, DEV, EMI = PEOPLE

CHATS = (
    DemoChat(
        key="house",
        name="Number 12, third floor",
        members=(CHIARA, ADA, BEN, EMI),
        messages=(
            (CHIARA, "The boiler man comes on Thursday between 8 and 12. Is anybody home?"),
            (BEN, "I work from home that day, I let him in."),
            (CHIARA, "You are a treasure."),
        ),
        read={CHIARA: 3, ADA: 3, BEN: 3, EMI: 3},
    ),
    DemoChat(
        key="ada-emi",
        name=None,
        members=(EMI, ADA),
        messages=(
            (EMI, "Is the recipe with or without nutmeg?"),
            (ADA, "With. Always with."),
        ),
        read={ADA: 2, EMI: 2},
    ),
    DemoChat(
        key="running",
        name="Running on Sundays",
        members=(BEN, ADA, DEV, EMI),
        messages=(
            (BEN, "Nine o'clock at the bridge, ten easy kilometres?"),
            (DEV, "Your easy is my personal best."),
            (BEN, "Then eight kilometres, and pancakes after."),
            (DEV, "Now you are talking."),
        ),
        read={BEN: 5, ADA: 5, DEV: 5, EMI: 5},
        changes=(DemoChange(DEV, Kind.DELETION, 2),),
    ),
    DemoChat(
        key="chiara-emi",
        name=None,
        members=(CHIARA, EMI),
        messages=(
            (CHIARA, "I found your scarf! It was under the piano all along."),
            (EMI, "Of course it was. I pick it up tomorrow."),
        ),
        read={CHIARA: 2, EMI: 2},
    ),
    DemoChat(
        key="book-club",
        name="Book club",
        members=(EMI, ADA, CHIARA),
        messages=(
            (EMI, "So, The Left Hand of Darkness it is."),
            (CHIARA, "Finally! I have been waiting for that one."),
            (EMI, "Shall we meet on the 14th?"),
        ),
        read={EMI: 3, CHIARA: 3, ADA: 1},
    ),
    DemoChat(
        key="ada-dev",
        name=None,
        members=(DEV, ADA),
        messages=(
            (DEV, "Did the tickets arrive?"),
            (ADA, "Yes, this morning. Row F, right in the middle!"),
            (DEV, "You are the best. Coffee is on me."),
        ),
        read={ADA: 3, DEV: 2},
    ),
    DemoChat(
        key="weekend",
        name="Weekend in the Alps",
        members=(ADA, BEN, CHIARA, DEV, EMI),
        messages=(
            (ADA, "The hut is booked! Friday to Sunday, room for all five of us."),
            (CHIARA, "Yes!! How do we get there?"),
            (DEV, "I can drive. There is room for three more, and for skis if somebody holds the snacks."),
            (BEN, "I hold the snacks."),
            (ADA, "Then Emi and I take the train: 7:32 from the main station, we are up there at noon."),
            (EMI, "Perfect. I bring the fondue pot."),
            (CHIARA, "What is the weather like?"),
            (DEV, "Snow on Friday night, then two days of sun."),
            (ADA, "What is still missing: **firewood**, **coffee**, and a deck of cards. @Ben Okafor, any of it?"),
            (BEN, "Cards: me. Coffee: also me, I have seen what you call coffee."),
            (ADA, "Rude. Correct, but rude."),
        ),
        read={ADA: 18, BEN: 18, CHIARA: 18, DEV: 18, EMI: 6},
        replies={4: 3, 10: 9},
        changes=(
            DemoChange(ADA, Kind.PIN, 5),
            DemoChange(CHIARA, Kind.REACTION, 4, emoji="😂"),
            DemoChange(EMI, Kind.REACTION, 4, emoji="😂"),
            DemoChange(CHIARA, Kind.REACTION, 8, emoji="🎉"),
            DemoChange(DEV, Kind.REACTION, 10, emoji="😂"),
            DemoChange(CHIARA, Kind.REACTION, 10, emoji="👍"),
            DemoChange(DEV, Kind.EDIT, 8, text="Snow on Friday night, then three days of sun!"),
        ),
    ),
    DemoChat(
        key="ada-ben",
        name=None,
        members=(ADA, BEN),
        messages=(
            (BEN, "Can you look at the draft before noon?"),
            (ADA, "On it. Give me twenty minutes."),
            (ADA, "Read it. I like the opening, and the figure on page 3 says it all. Two small notes in the margin."),
            (BEN, "That was quick, thank you!"),
            (BEN, "One more thing: do we name the chapter after the route or after the hut?"),
        ),
        read={ADA: 3, BEN: 7},
        replies={4: 3},
        changes=(
            DemoChange(BEN, Kind.REACTION, 3, emoji="❤️"),
            DemoChange(ADA, Kind.REACTION, 1, emoji="👍"),
        ),
    ),
)
