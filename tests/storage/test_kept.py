"""What is kept in memory leaves in order of use, by number or by weight."""

from concurrent.futures import ThreadPoolExecutor

from storage.kept import Kept


def test_the_least_recently_used_leaves_first() -> None:
    kept: Kept[str, int] = Kept(2)
    kept.keep({"a": 1, "b": 2})
    assert kept.among(["a", "x"]) == {"a": 1}
    kept.keep({"c": 3})
    assert kept.among(["a", "b", "c"]) == {"a": 1, "c": 3}


def test_what_weighs_more_than_all_that_may_be_kept_is_given_and_not_kept() -> None:
    kept: Kept[str, str] = Kept(3, len)
    assert kept.get("a", lambda: "aaaa") == "aaaa" and kept.among(["a"]) == {}
    assert kept.get("b", lambda: "bb") == "bb" and kept.get("b", lambda: "other") == "bb"


def test_every_thread_gets_its_value_however_many_are_pushed_out() -> None:
    kept: Kept[int, int] = Kept(1)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: kept.get(n % 7, lambda: n % 7), range(2000)))
    assert found == [n % 7 for n in range(2000)] and len(kept.held) == 1
