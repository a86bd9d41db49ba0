import pytest

from foundation.kernel.tracing import parse_traceparent, trace_id_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class TestTraceparent:
    @pytest.mark.parametrize(
        "header", [f"00-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-the-future-adds"]
    )
    def test_it_is_kept_in_the_form_of_version_00(self, header: str) -> None:
        assert parse_traceparent(header) == f"00-{TRACE}-{SPAN}-01"

    @pytest.mark.parametrize(
        "header",
        [
            "",
            TRACE,
            f"00-{TRACE}-{SPAN}",
            f"00-{TRACE}-{SPAN}-01-more",
            f"00-{TRACE}-{SPAN}-01-",
            f"cc-{TRACE}-{SPAN}-01.more",
            f"ff-{TRACE}-{SPAN}-01",
            f"00-{TRACE.upper()}-{SPAN}-01",
            f"00-{'0' * 32}-{SPAN}-01",
            f"00-{TRACE}-{'0' * 16}-01",
            f"00-{TRACE}-{SPAN}-01\n",
            f" 00-{TRACE}-{SPAN}-01",
            f"cc-{TRACE}-{SPAN}-01-{'x' * 300}",
        ],
    )
    def test_what_the_standard_calls_invalid_is_ignored(self, header: str) -> None:
        assert parse_traceparent(header) is None

    def test_the_trace_id_is_its_second_field(self) -> None:
        assert trace_id_of(f"00-{TRACE}-{SPAN}-01") == TRACE
