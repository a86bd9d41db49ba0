"""Access patterns of the contract suite: one for each thing a `Database` can do."""

from accounts.models import UserModel
from chats.models import CounterModel, MembershipModel
from foundation.stores.dynamodb import AccessPattern, Consistency, Operation
from messaging.models import MessageModel

STRONG, EVENTUAL = Consistency.STRONG, Consistency.EVENTUAL

GET_USER = AccessPattern("test: get user", UserModel, Operation.GET, "user_id", STRONG)
FIND_PHONE = AccessPattern(
    "test: find phone", UserModel, Operation.QUERY, "phone_number", EVENTUAL, index=UserModel.phone_number_index
)
PUT_USER = AccessPattern("test: put user", UserModel, Operation.PUT, "user_id")
DELETE_USER = AccessPattern("test: delete user", UserModel, Operation.DELETE, "user_id")
READ_USERS = AccessPattern("test: read users", UserModel, Operation.BATCH_GET, "user_id", STRONG)
ADD_USER = AccessPattern("test: add user", UserModel, Operation.TRANSACT_PUT, "user_id")
DROP_USER = AccessPattern("test: drop user", UserModel, Operation.TRANSACT_DELETE, "user_id")

GET_COUNTER = AccessPattern("test: get counter", CounterModel, Operation.GET, "chat_id", STRONG)
PUT_COUNTER = AccessPattern("test: put counter", CounterModel, Operation.PUT, "chat_id")
MOVE_COUNTER = AccessPattern("test: move counter", CounterModel, Operation.UPDATE, "chat_id")
SHIFT_COUNTER = AccessPattern("test: shift counter", CounterModel, Operation.TRANSACT_UPDATE, "chat_id")

WRITE_MEMBERS = AccessPattern("test: write members", MembershipModel, Operation.BATCH_PUT, "chat_id, user_id")
DROP_MEMBERS = AccessPattern("test: drop members", MembershipModel, Operation.BATCH_DELETE, "chat_id, user_id")
MEMBERS = AccessPattern("test: members", MembershipModel, Operation.QUERY, "chat_id", STRONG)
READ_MEMBERS = AccessPattern("test: read members", MembershipModel, Operation.BATCH_GET, "chat_id, user_id", STRONG)
CHATS_OF = AccessPattern(
    "test: chats of", MembershipModel, Operation.QUERY, "user_id", EVENTUAL, index=MembershipModel.user_chats_index
)
WRITE_MESSAGES = AccessPattern("test: write messages", MessageModel, Operation.BATCH_PUT, "chat_id, sequence")
MESSAGES = AccessPattern("test: messages", MessageModel, Operation.QUERY, "chat_id, sequence", STRONG)
