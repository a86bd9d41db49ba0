from collections.abc import Mapping
from typing import Any

from accounts.domain import User
from config.management.person_command import PersonCommand
from staff.desk import Desk
from staff.services.export import describe_session


class Command(PersonCommand):
    """Thin: `staff.desk` has the services."""

    help = "Show a person: account, sessions, open connections, chats with marks."

    def act(self, desk: Desk, user: User, options: Mapping[str, Any]) -> None:
        sessions = [describe_session(each) for each in desk.people.list_sessions(user.user_id)]
        connections = [each.connection_id for each in desk.gateways.connections_of(user.user_id)]
        chats = [chat.to_json() for chat in desk.people.list_chats(user.user_id)]
        state = "suspended" if user.suspended_at else "active"
        lines = [
            f"{user.display_name}  {user.phone_number}  {user.user_id}  {state}",
            *(f"session {each['session_id']}  {each['device_id']}  since {each['created_at']}" for each in sessions),
            *(f"connection {each}" for each in connections),
            *(f"chat {each['chat_id']}  {each['name'] or 'direct'}  {each['role']}" for each in chats),
        ]
        self.report(options, "\n".join(lines), user, sessions=sessions, connections=connections, chats=chats)
