"""Which images of a history are sent."""

from prompts import load
from tests.makers import (
    call,
    history,
    picture,
    result,
    user,
)
from tests.worker.wires import flat, request_of
from worker import api
from worker.content import Media


def test_many_images_lose_the_oldest_a_quarter_at_a_time() -> None:
    # corpus case 15: screenshots until the body is too large for every request.
    media = Media(images=8, bytes=1_000)
    items = history(user("go"))
    sent: list[int] = []
    for number in range(20):
        items += [call(f"{number}"), result(f"{number}", "ok", picture())]
        request = request_of(items, media=media)
        sent.append(
            sum(
                isinstance(block, api.ToolResult)
                and len(block.content) == 2
                and isinstance(block.content[1], api.Image)
                for block in flat(request)
            )
        )

    assert sent == [1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8, 6, 7, 8, 6, 7, 8, 6, 7, 8]


def test_images_go_by_bytes_too_and_the_newest_stays() -> None:
    items = history(user("old", picture(60)), user("new", picture(100)))

    request = request_of(items, media=Media(bytes=100))

    assert request.messages[0].content == (
        api.Text("old"),
        api.Text(load("image_left_out")),
        api.Text("new"),
        api.Image(api.Base64("image/gif", picture(100).data)),
    )


def test_a_request_for_a_summary_can_go_without_images() -> None:
    items = history(user("look", picture()))

    request = request_of(items, media=Media(images=0))

    assert request.messages[0].content == (
        api.Text("look"),
        api.Text(load("image_left_out")),
    )
