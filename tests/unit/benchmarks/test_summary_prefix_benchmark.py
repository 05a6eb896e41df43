"""What `benchmarks.summary_prefix` measures."""

from __future__ import annotations

from benchmarks.summary_prefix import LEAST_CACHED, main, report


def test_most_of_a_request_on_top_is_cached_and_hardly_any_of_one_apart(capsys):
    found = report(60)
    apart, top = (found["systems"][name] for name in ("apart", "on top"))
    assert found["ok"]
    assert apart["summaries"] == top["summaries"] > 1
    assert apart["cached"] < 0.2 < LEAST_CACHED <= top["cached"]
    assert top["full price"] < apart["full price"] / 2
    assert main(["--turns", "60"]) == 0
    assert "0.8 cached on top: ok" in capsys.readouterr().out
