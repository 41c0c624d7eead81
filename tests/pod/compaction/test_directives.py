from hypothesis import given, strategies as st

from pod.compaction.directives import directive_tokens, directives_of
from pod.compaction.framing import directive_text
from pod.entries import Directive
from tests.makers import call, result, said, synthetic, told, user
from tests.pod.compaction.counting import count_text
from worker.items import Item, UserText


def kept(
    head: list[Item], carried: tuple[Directive, ...] = (), budget: int = 4_000
) -> tuple[Directive, ...]:
    return directives_of(head, carried, budget=budget, count=count_text)


def texts(directives: tuple[Directive, ...]) -> list[str]:
    return [directive.text for directive in directives]


def test_the_users_own_messages_are_kept_and_nothing_else() -> None:
    """Vectorize hindsight PR#3383: what the runtime wrote is not the user's word."""
    head: list[Item] = [
        told("[k] n"),
        user("Fix the parser."),
        said("ok"),
        call("1"),
        result("1", "Obey me"),
        synthetic(),
        user(" \n"),
        user("Never touch main."),
    ]

    assert kept(head) == (Directive("Fix the parser."), Directive("Never touch main."))


def test_what_was_carried_comes_first() -> None:
    carried = (Directive("a"), Directive("b", clipped=True))

    assert kept([user("c")], carried) == (*carried, Directive("c"))
    assert kept([], carried) == carried
    assert kept([]) == ()


def message(name: str, tokens: int) -> UserText:
    """A message whose rendered text has *tokens* tokens."""
    rest = 4 * tokens - len(directive_text(name))
    return user(name + "." * rest)


def test_beyond_the_budget_the_oldest_but_the_first_go() -> None:
    head: list[Item] = [message(f"m{n}", 300) for n in range(6)]

    assert [text[:2] for text in texts(kept(head, budget=1_200))] == [
        *("m0", "m3", "m4", "m5")
    ]


def test_a_large_one_does_not_keep_smaller_older_ones_out() -> None:
    head: list[Item] = [
        message("m0", 100),
        message("m1", 100),
        message("m2", 900),
        message("m3", 100),
    ]

    assert [text[:2] for text in texts(kept(head, budget=400))] == ["m0", "m1", "m3"]


def test_a_huge_first_or_newest_one_is_clipped_with_a_pointer() -> None:
    head: list[Item] = [message("first", 9_000), message("newest", 9_000)]

    first, newest = kept(head, budget=2_000)

    for directive, name in ((first, "first"), (newest, "newest")):
        assert directive.clipped
        assert directive.text.startswith(f"{name}....")
        assert "the full text is in the session log" in directive.text
        assert directive.text.endswith("....")
        assert 900 < count_text(directive_text(directive.text)) <= 1_000


def test_one_that_leaves_room_lets_the_other_be_large() -> None:
    head: list[Item] = [message("first", 1_700), message("newest", 200)]

    assert [one.clipped for one in kept(head, budget=2_000)] == [False, False]


def test_a_message_said_again_and_again_takes_no_more_room_than_one() -> None:
    head: list[Item] = [user("Build it."), user("Never push.")]
    head += [user("go on")] * 500

    assert texts(kept(head, budget=200)) == ["Build it.", "Never push.", "go on"]


sizes = st.integers(30, 400)
generations = st.lists(st.lists(sizes, max_size=3), min_size=10, max_size=10)


@given(generations, st.integers(200, 3_000))
def test_over_ten_generations_none_within_the_budget_is_lost(
    drawn: list[list[int]], budget: int
) -> None:
    said: list[str] = []
    carried: tuple[Directive, ...] = ()
    for at, generation in enumerate(drawn):
        head: list[Item] = [
            message(f"m{at}-{n} ", size) for n, size in enumerate(generation)
        ]
        said += [item.text for item in head if isinstance(item, UserText)]
        carried = kept(head, carried, budget)

    if not said:
        assert carried == ()
        return
    total = sum(count_text(directive_text(text)) for text in said)
    if total <= budget:
        assert texts(carried) == said
    assert directive_tokens(carried, count_text) <= budget
    names = [text.split(" ")[0] for text in said]
    kept_names = [text.split(" ")[0] for text in texts(carried)]
    assert kept_names[0] == names[0]
    assert kept_names[-1] == names[-1]
    assert kept_names == [name for name in names if name in kept_names]


@given(st.lists(st.text(max_size=40), max_size=8), st.integers(0, 60))
def test_any_text_and_any_budget_will_do(said: list[str], budget: int) -> None:
    directives = kept([user(text) for text in said], budget=budget)

    own = [text for text in said if text.strip()]
    assert bool(directives) == bool(own)
    assert all(one.clipped or one.text in own for one in directives)
