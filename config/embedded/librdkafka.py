"""The Kafka cluster inside librdkafka, by the part of its C interface that `confluent_kafka` does not offer."""

from ctypes import CDLL, c_char_p, c_int, c_int32, c_size_t, c_void_p, create_string_buffer

from confluent_kafka import cimpl

PRODUCER = 0
BROKERS = 1
BROKER_ID = 1
WARNINGS = b"4"
ERROR_BYTES = 512

# Result, then arguments, as in rdkafka.h and rdkafka_mock.h.
PROTOTYPES = {
    "rd_kafka_conf_new": (c_void_p,),
    "rd_kafka_conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "rd_kafka_new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "rd_kafka_mock_cluster_new": (c_void_p, c_void_p, c_int),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, c_void_p),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, c_void_p, c_int32),
    "rd_kafka_mock_topic_create": (c_int, c_void_p, c_char_p, c_int, c_int),
    "rd_kafka_mock_broker_set_down": (c_int, c_void_p, c_int32),
    "rd_kafka_mock_broker_set_up": (c_int, c_void_p, c_int32),
}


class CannotCreateCluster(Exception):
    """Raised when librdkafka refuses, with its reason."""


class Cluster:
    """One broker on a loopback port of the kernel's choice, alive as long as the process.

    A broker that is down refuses connections and keeps its log, its groups and their offsets.
    """

    def __init__(self) -> None:
        self._library = _load()
        self._cluster = self._create()

    @property
    def address(self) -> str:
        address: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return address.decode()

    def create_topic(self, name: str, *, partitions: int) -> None:
        self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, BROKERS)

    def take_down(self) -> None:
        self._library.rd_kafka_mock_broker_set_down(self._cluster, BROKER_ID)

    def bring_up(self) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, BROKER_ID)

    def _create(self) -> int:
        reason = create_string_buffer(ERROR_BYTES)
        options = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(options, b"log_level", WARNINGS, reason, ERROR_BYTES)
        client = self._library.rd_kafka_new(PRODUCER, options, reason, ERROR_BYTES)
        if client is None:
            raise CannotCreateCluster(reason.value.decode())
        cluster: int = self._library.rd_kafka_mock_cluster_new(client, BROKERS)
        # Otherwise the first consumer of a group waits three seconds for others to join it.
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0)
        return cluster


def _load() -> CDLL:
    # The extension module's handle also finds the symbols of the library it is linked to, bundled or not.
    library = CDLL(cimpl.__file__)
    for name, (result, *arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
