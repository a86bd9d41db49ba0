"""The admin pages: who may see and do what, what is shown, and what is recorded."""

import io
import json
import re
import zipfile
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from accounts.models import UserModel
from chats.domain import ChatDraft, ChatType, Role
from config.wiring.demo import demo_of
from config.wiring.staff import staff_services_of
from delivery.domain import Mark
from delivery.stores.gateways import GatewayDirectory
from foundation.kernel.ids import UserId
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from messaging.domain import Action, Draft, Kind
from messaging.services.committer import SendRateLimiter
from staff.models import AuditRecord
from staff.services import erasure
from staff.services.audit.auditor import AuditScope
from staff.services.chat_check import ChatCheck
from tests.integration.staff.site import Site, populated

ANYBODY = ("nobody", "support", "moderator", "operator")
PAGES = {
    "/admin/": ANYBODY,
    "/admin/people/": ANYBODY[1:],
    "/admin/people/{person}/": ANYBODY[1:],
    "/admin/chats/{chat}/": ANYBODY[1:],
    "/admin/connections/": ANYBODY[1:],
    "/admin/audit/": ANYBODY[1:],
    "/admin/engines/": ANYBODY[3:],
}
ACTIONS = {
    "revoke_session": ANYBODY[1:],
    "revoke_sessions": ANYBODY[1:],
    "suspend": ANYBODY[2:],
    "restore": ANYBODY[2:],
    "export": ANYBODY[3:],
    "erase": ANYBODY[3:],
    "read": ANYBODY[1:],
    "delete_entry": ANYBODY[2:],
    "check": ANYBODY[3:],
    "repair": ANYBODY[3:],
    "drain": ANYBODY[3:],
    "resume": ANYBODY[3:],
}
ON_THE_CHAT = {
    "read": "read_messages", "delete_entry": "delete_entry", "check": "check_chat", "repair": "repair_chat",
}  # fmt: skip
ON_A_GATEWAY = ("drain", "resume")
GATEWAY = "gw-gone"


def client_of(site: Site, group: str, **options: Any) -> Client:
    return site.client(None if group == "nobody" else group, **options)


def address(site: Site, path: str) -> str:
    return path.format(person=site.ada, chat=site.chat_id)


def act(client: Client, site: Site, action: str, reason: str = "because") -> Any:
    page = site.chat_page if action in ON_THE_CHAT else site.person_page
    body = {
        "action": action,
        "reason": reason,
        "session_id": site.session.session_id,
        "confirm": site.ada,
        "sequence": "1",
        "gateway": GATEWAY,
    }
    return client.post("/admin/connections/" if action in ON_A_GATEWAY else page, body)


class TestPermissions:
    def test_pages_by_group(self, site: Site) -> None:
        clients = {group: client_of(site, group, username=group) for group in ANYBODY}
        seen = {
            path: tuple(group for group in ANYBODY if clients[group].get(address(site, path)).status_code == 200)
            for path in PAGES
        }
        assert seen == PAGES
        refused = clients["nobody"].get(site.person_page)
        assert refused.status_code == 403
        assert site.ada not in refused.content.decode().replace(site.person_page, "")

    @pytest.mark.parametrize("action", ACTIONS)
    def test_actions_by_group(self, site: Site, action: str) -> None:
        allowed = [
            group for group in ANYBODY if act(client_of(site, group, username=group), site, action).status_code != 403
        ]
        assert tuple(allowed) == ACTIONS[action]
        recorded = AuditRecord.objects.filter(action__startswith=action).values_list("actor", flat=True)
        assert recorded
        assert set(recorded) <= set(ACTIONS[action])

    def test_strangers_and_people_without_staff_rights_see_only_the_login(self, site: Site) -> None:
        client = Client()
        for path in PAGES:
            for answer in (client.get(address(site, path)), client.post(address(site, path), {"action": "suspend"})):
                assert answer.status_code == 302
                assert answer["Location"].startswith("/admin/login/")
        assert client.get("/admin/login/").status_code == 200

    def test_a_superuser_may_do_everything(self, site: Site) -> None:
        client = site.client(is_superuser=True)
        assert all(client.get(address(site, path)).status_code == 200 for path in PAGES)

    def test_the_menu_shows_what_the_group_may_see(self, site: Site) -> None:
        menu = client_of(site, "support").get("/admin/").content.decode()
        assert "/admin/people/" in menu
        assert "/admin/engines/" not in menu


class TestReasons:
    @pytest.mark.parametrize("action", ACTIONS)
    @pytest.mark.parametrize("reason", ["", "   "])
    def test_without_a_reason_nothing_is_done(self, site: Site, action: str, reason: str) -> None:
        client = client_of(site, "operator")
        before = site.web.accounts.records.get(site.ada)
        assert act(client, site, action, reason).status_code == 422
        assert site.web.accounts.records.get(site.ada) == before
        assert not AuditRecord.objects.filter(action=action).exists()

    @pytest.mark.parametrize("action", ACTIONS)
    def test_every_act_is_recorded_with_who_what_whom_and_why(self, site: Site, action: str) -> None:
        act(client_of(site, "operator"), site, action)
        found = AuditRecord.objects.get(action=ON_THE_CHAT.get(action, action))
        target = GATEWAY if action in ON_A_GATEWAY else site.chat_id if action in ON_THE_CHAT else site.ada
        assert (found.actor, found.target, found.reason, found.source) == ("grace", target, "because", "127.0.0.1")

    def test_every_form_that_changes_something_asks_for_a_reason(self, site: Site) -> None:
        client = site.client(is_superuser=True)
        for path in (site.person_page, site.chat_page):
            forms = re.findall(r"<form method=\"post\".*?</form>", client.get(path).content.decode(), re.DOTALL)
            assert forms
            assert all('name="reason"' in form for form in forms)


class TestPeople:
    def test_a_person_is_found_by_phone_number_and_by_id(self, site: Site) -> None:
        client = client_of(site, "support")
        for query in (site.phone_number, site.ada):
            assert site.person_page in client.get("/admin/people/", {"q": query}).content.decode()

    def test_a_number_is_found_as_people_write_it(self, site: Site) -> None:
        client, number = client_of(site, "support"), site.phone_number
        spaced = f"{number[:3]} ({number[3:6]}) {number[6:9]}-{number[9:]}"
        for address in (f"?q={number}", f"?q={number[1:]}", f"?q={quote(spaced)}", f"?q={quote(number)}"):
            assert site.person_page in client.get(f"/admin/people/{address}").content.decode()

    def test_the_page_of_a_number_is_that_of_its_owner(self, site: Site) -> None:
        client, by_number = client_of(site, "moderator"), f"/admin/people/{site.phone_number}/"
        assert client.get(by_number)["Location"] == site.person_page
        answer = client.post(by_number, {"action": "revoke_sessions", "reason": "lost"}, follow=True)
        assert "1 sessions were revoked" in answer.content.decode()
        assert site.web.accounts.sessions.list_sessions(site.ada, limit=10) == ([], None)

    @pytest.mark.parametrize("query", ["+49", "user_x", "phone#+14155550123", "<script>", "\ud7ff", "a" * 3000])
    def test_anything_else_finds_nobody(self, site: Site, query: str) -> None:
        answer = client_of(site, "support").get("/admin/people/", {"q": query})
        assert answer.status_code == 200
        assert "Nobody was found" in answer.content.decode()
        assert "<script>alert" not in answer.content.decode()

    def test_a_chats_id_leads_to_the_chat(self, site: Site) -> None:
        answer = client_of(site, "support").get("/admin/people/", {"q": site.chat_id})
        assert answer["Location"] == site.chat_page

    def test_the_page_shows_sessions_chats_and_marks(self, site: Site) -> None:
        page = client_of(site, "support").get(site.person_page).content.decode()
        assert site.session.session_id in page
        assert site.chat_id in page
        assert "a private word" not in page

    def test_without_redis_only_the_connections_are_missing(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: object) -> None:
            raise StoreUnavailable("Redis does not answer")

        monkeypatch.setattr(GatewayDirectory, "connections_of", away)
        answer = client_of(site, "support").get(site.person_page)
        assert answer.status_code == 200
        assert "Redis does not answer" in answer.content.decode()
        assert site.session.session_id in answer.content.decode()

    def test_a_service_that_does_not_answer_is_a_503(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        def hang(*_: object) -> None:
            raise TimeoutError

        monkeypatch.setattr(GatewayDirectory, "connections_of", hang)
        assert client_of(site, "support").get(site.person_page).status_code == 503

    def test_a_session_is_revoked(self, site: Site) -> None:
        client = client_of(site, "support")
        assert act(client, site, "revoke_session").status_code == 302
        assert site.session.session_id not in client.get(site.person_page).content.decode().partition("<h2>Sessions")[2]

    def test_a_suspended_person_is_shown_as_such_until_restored(self, site: Site) -> None:
        client = client_of(site, "moderator")
        act(client, site, "suspend")
        assert "suspended since" in client.get(site.person_page).content.decode()
        act(client, site, "restore")
        assert "suspended since" not in client.get(site.person_page).content.decode()

    def test_an_export_holds_everything_of_the_person_and_nothing_of_others(self, site: Site) -> None:
        answer = act(client_of(site, "operator"), site, "export")
        archive = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))
        found = {name: json.loads(archive.read(name)) for name in archive.namelist()}
        assert found["account.json"]["phone_number"] == site.phone_number
        assert [each["session_id"] for each in found["sessions.json"]] == [site.session.session_id]
        assert [each["content"] for each in found[f"messages/{site.chat_id}.json"]] == ["a private word"]
        assert site.bob not in archive.read("account.json").decode()

    def test_an_erasure_wants_the_id_repeated(self, site: Site) -> None:
        client = client_of(site, "operator")
        body = {"action": "erase", "reason": "asked for it", "confirm": "yes"}
        assert client.post(site.person_page, body).status_code == 422
        assert site.web.accounts.records.find(site.ada) is not None

    @pytest.mark.parametrize("query", ["sessions_after=x", f"sessions_after={'x' * 3000}", "chats_after=x"])
    def test_made_up_positions_are_refused(self, site: Site, query: str) -> None:
        assert client_of(site, "support").get(f"{site.person_page}?{query}").status_code == 400

    def test_somebody_who_does_not_exist_is_a_404(self, site: Site) -> None:
        client = client_of(site, "operator")
        assert client.get("/admin/people/user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1/").status_code == 404
        assert client.post("/admin/people/user_x/", {"action": "suspend", "reason": "x"}).status_code == 404
        assert not AuditRecord.objects.filter(action="suspend").exists()


class TestErasure:
    def test_account_sessions_claim_memberships_and_marks_go_and_messages_stay(self, site: Site) -> None:
        web = site.web
        web.clients.loop.run(web.delivery.watermarks.move(site.ada, site.chat_id, Mark.READ, 1))
        act(client_of(site, "operator"), site, "erase")
        assert web.accounts.records.find(site.ada) is None
        assert web.accounts.records.find(site.phone_number) is None
        assert web.accounts.sessions.list_sessions(site.ada, limit=10) == ([], None)
        marks = web.clients.loop.run(web.delivery.watermarks.list_watermarks(site.ada, limit=10, cursor=None))
        assert marks.watermarks == []
        left = web.chats.records.list_members(site.chat_id, limit=10).memberships
        assert [member.user_id for member in left] == [site.bob]
        entries = staff_services_of(web).list_entries(site.chat_id, 1, 1)
        assert [(entry["sequence"], entry["sender_id"]) for entry in entries] == [(1, site.ada)]

    def test_an_audit_finds_nothing_afterwards(self, site: Site) -> None:
        act(client_of(site, "operator"), site, "erase")
        recovery = staff_services_of(site.web).recovery()
        report = recovery.run(recovery.auditor.run(AuditScope(chat_ids=[site.chat_id], user_ids=[site.bob])))
        assert report.findings == []

    def test_messages_are_redacted_where_the_operator_has_set_so(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        services = staff_services_of(site.web)
        monkeypatch.setattr(services.people._erasure, "_moderation", services.moderation)
        act(client_of(site, "operator"), site, "erase")
        assert [entry["content"] for entry in services.list_entries(site.chat_id, 1, 2)] == ["", ""]

    def test_the_longest_standing_member_owns_the_group_then_wherever_the_list_has_it(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(erasure, "PAGE", 1)
        chats, early, late = site.web.chats, *sorted([site.bob, populated(site.web).bob], reverse=True)
        group = chats.creation.create(site.ada, ChatDraft(ChatType.GROUP, "Group", ())).state.chat.chat_id
        for user_id in (early, late):
            chats.members.add(group, site.ada, user_id, Role.MEMBER)
        act(client_of(site, "operator"), site, "erase")
        members = chats.records.list_members(group, limit=10).memberships
        assert {each.user_id: each.role for each in members} == {early: Role.OWNER, late: Role.MEMBER}

    def test_an_account_whose_claim_is_lost_is_erased_too(self, site: Site) -> None:
        database = site.web.clients.database
        claim = {"user_id": {"S": f"phone#{site.phone_number}"}}
        database.call("DeleteItem", {"TableName": database.table_name(UserModel), "Key": claim})
        assert act(client_of(site, "operator"), site, "erase").status_code == 302
        assert site.web.accounts.records.find(site.ada) is None

    def test_the_number_is_free_for_a_new_account(self, site: Site) -> None:
        act(client_of(site, "operator"), site, "erase")
        again = demo_of(site.web)._services.registration.find_or_create(site.phone_number, display_name="New")[0]
        assert again.user_id != site.ada


class TestChats:
    def test_contents_are_shown_only_after_a_reason_and_to_that_session_alone(self, site: Site) -> None:
        reader, other = client_of(site, "support"), client_of(site, "support", username="other")
        assert "a private word" not in reader.get(site.chat_page).content.decode()
        act(reader, site, "read", "report 17")
        assert "a private word" in reader.get(site.chat_page).content.decode()
        assert "a private word" not in other.get(site.chat_page).content.decode()
        assert AuditRecord.objects.get(action="read_messages").reason == "report 17"

    def test_a_reaction_names_its_message_and_shows_its_emoji_to_readers_alone(self, site: Site) -> None:
        reaction = Draft(
            site.chat_id, site.bob, "", kind=Kind.REACTION, target=1, emoji="\N{THUMBS UP SIGN}", action=Action.ADD
        )
        site.web.clients.loop.run(site.web.messaging.committer.send(reaction))
        client = client_of(site, "support")
        page = client.get(site.chat_page).content.decode()
        assert "<td>reaction (add) on 1</td>" in page
        assert "\N{THUMBS UP SIGN}" not in page
        act(client, site, "read")
        assert "\N{THUMBS UP SIGN}" in client.get(site.chat_page).content.decode()

    def test_people_are_named(self, site: Site) -> None:
        page = site.client("support").get(site.chat_page).content.decode()
        name = site.web.accounts.records.get(site.ada).display_name
        assert f'<a href="{site.person_page}">{name}</a><br><code>{site.ada}</code>' in page
        assert f'<a href="{site.person_page}" title="{site.ada}">{name}</a>' in page

    def test_a_deleted_message_is_shown_as_such(self, site: Site) -> None:
        client = client_of(site, "moderator")
        act(client, site, "delete_entry")
        assert '<td class="staff-content">deleted</td>' in client.get(site.chat_page).content.decode()

    def test_a_moderator_deletes_a_message_for_everybody(self, site: Site) -> None:
        client = client_of(site, "moderator")
        assert act(client, site, "delete_entry").status_code == 302
        deletion, message = staff_services_of(site.web).list_entries(site.chat_id, 1, 2)
        assert (deletion["kind"], deletion["target"]) == ("deletion", 1)
        assert (message["content"], "deleted_at" in message) == ("", True)
        assert (
            client.post(site.chat_page, {"action": "delete_entry", "sequence": "2", "reason": "x"}).status_code == 404
        )

    def test_a_message_of_somebody_who_is_erased_is_deleted_in_a_direct_chat_too(self, site: Site) -> None:
        operator = client_of(site, "operator")
        act(operator, site, "erase")
        assert act(operator, site, "delete_entry").status_code == 302
        assert [entry["content"] for entry in staff_services_of(site.web).list_entries(site.chat_id, 1, 2)] == ["", ""]

    def test_a_message_of_somebody_who_has_used_up_the_limit_of_sends_is_deleted(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limiter = SendRateLimiter(rate=1e-6, burst=1)
        limiter.take(site.ada)
        monkeypatch.setattr(site.web.messaging.committer, "_limiter", limiter)
        assert act(client_of(site, "moderator"), site, "delete_entry").status_code == 302
        assert AuditRecord.objects.filter(action="delete_entry_failed").count() == 0

    def test_a_check_without_kafka_says_so_and_not_that_something_is_stored(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object, **__: object) -> None:
            raise EventLogUnavailable("Kafka does not answer")

        monkeypatch.setattr(ChatCheck, "run", away)
        answer = act(client_of(site, "operator"), site, "check")
        assert (answer.status_code, "Stored" in answer.content.decode()) == (503, False)

    def test_an_operator_checks_a_chat_against_itself_and_kafka(self, site: Site) -> None:
        answer = act(client_of(site, "operator"), site, "check")
        assert answer.status_code == 200
        assert 'id="findings"' in answer.content.decode()
        assert "Nothing found" in answer.content.decode()

    @pytest.mark.parametrize(
        "query",
        ["before=x", "after=-1", "before=99999999999999999999", "members_after=x", f"members_after={'x' * 3000}"],
    )
    def test_made_up_positions_are_refused(self, site: Site, query: str) -> None:
        assert client_of(site, "support").get(f"{site.chat_page}?{query}").status_code == 400


class TestEveryPage:
    @pytest.mark.parametrize("path", PAGES)
    def test_no_page_needs_inline_scripts_or_styles(self, site: Site, path: str) -> None:
        answer = site.client(is_superuser=True).get(address(site, path))
        policy = answer["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert not re.search(r"<script>|<style|\sstyle=|\son[a-z]+=", answer.content.decode())

    def test_times_name_their_zone(self, site: Site) -> None:
        client = site.client(is_superuser=True)
        act(client, site, "suspend")
        for path in ("/admin/audit/", site.person_page, site.chat_page, f"/admin/people/?q={site.ada}"):
            page = client.get(path).content.decode()
            assert re.search(r"\d\d:\d\d:\d\d UTC", page)
            assert not re.search(r"\d\d:\d\d:\d\d(?! UTC|\.\d+Z|Z|\d)", page)

    def test_the_audit_log_links_to_people_and_chats(self, site: Site) -> None:
        client = site.client("operator")
        act(client, site, "suspend")
        act(client, site, "read")
        act(client, site, "drain")
        page = client.get("/admin/audit/").content.decode()
        assert f'<a href="{site.person_page}">{site.ada}</a>' in page
        assert f'<a href="{site.chat_page}">{site.chat_id}</a>' in page
        assert f">{GATEWAY}</td>" in page

    def test_a_message_shows_an_id_as_it_is(self, site: Site) -> None:
        """Django begins a message with a capital letter."""
        client = site.client("operator")
        act(client, site, "erase")
        assert f"The account {site.ada} is erased." in client.get("/admin/people/").content.decode()

    def test_no_page_leads_outside(self, site: Site) -> None:
        client = site.client(is_superuser=True)
        kind = ContentType.objects.get(app_label="staff", model="staff")
        assert client.get(f"/admin/r/{kind.pk}/1/").status_code == 404

    def test_a_page_that_is_refused_or_does_not_exist_is_a_page_that_leads_on(self, site: Site) -> None:
        client = site.client("support")
        for path, status in {"/admin/auth/user/": 403, "/admin/engines/": 403, "/admin/nosuch/": 404}.items():
            answer = client.get(path)
            assert (answer.status_code, answer["Content-Type"]) == (status, "text/html; charset=utf-8"), path
            assert re.search(r'class="errornote">[^<]+</p>\s*<p><a href="/admin/', answer.content.decode()), path

    def test_what_cannot_be_done_leads_back_to_where_it_was_asked_for(self, site: Site) -> None:
        client = site.client("operator")
        refused = client.post(site.person_page, {"action": "erase", "reason": "x", "confirm": "yes"})
        assert f'<a href="{site.person_page}">Back to the page</a>' in refused.content.decode()

    def test_the_audit_log_cannot_be_changed(self, site: Site) -> None:
        client = site.client(is_superuser=True)
        assert client.post("/admin/audit/", {"action": "delete", "reason": "x"}).status_code == 405

    def test_a_request_from_another_site_is_refused(self, site: Site) -> None:
        client = site.client("moderator")
        client.handler.enforce_csrf_checks = True
        answer = act(client, site, "suspend")
        assert answer.status_code == 403
        assert f'<a href="{site.person_page}">Load the page again</a>' in answer.content.decode()
        assert site.web.accounts.records.get(UserId(site.ada)).suspended_at is None
