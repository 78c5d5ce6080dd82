"""Several endpoints as one: least busy first, the dead left out and tried again, and an end where there is no hope."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

import pytest

from tests.standin import Action, Brain, StandIn, error, free_port, in_turn, openai_error, say
from touchstone.chat.failure import ChatFailure
from touchstone.chat.pool import Pool
from touchstone.chat.reply import Reply
from touchstone.chat.request import ChatRequest
from touchstone.chat.stop import Stopped, StopSign
from touchstone.errors import EndpointError

T = TypeVar("T")


def question(text: str = "What is a touchstone?") -> ChatRequest:
    return ChatRequest("stand-in", text)


def run(
    urls: Sequence[str],
    work: Callable[[Pool], Awaitable[T]],
    *,
    slots: int = 2,
    timeout_s: float = 20.0,
    notes: list[str] | None = None,
) -> T:
    async def main() -> T:
        told = [] if notes is None else notes
        async with Pool(
            urls, slots=slots, timeout_s=timeout_s, on_note=told.append, first_pause_s=0.05, longest_pause_s=0.2
        ) as pool:
            return await work(pool)

    return asyncio.run(main())


def many(count: int) -> Callable[[Pool], Awaitable[list[Reply]]]:
    async def work(pool: Pool) -> list[Reply]:
        numbers = iter(range(count))

        async def worker() -> list[Reply]:
            return [await pool.ask(question(f"Question {n}?")) for n in numbers]

        parts = await asyncio.gather(*(worker() for _ in range(pool.slots)))
        return [reply for part in parts for reply in part]

    return work


def gone() -> str:
    return f"http://127.0.0.1:{free_port()}/v1"


def test_the_calls_are_shared_and_answers_are_the_same() -> None:
    with StandIn(Brain(delay_s=0.02)) as one, StandIn(Brain(delay_s=0.02)) as other:
        replies = run([one.url, other.url], many(40))
        alone = run([one.url], many(40), slots=4)
        shares = [len(one.chats) - 40, len(other.chats)]
    assert sorted(reply.text for reply in replies) == sorted(reply.text for reply in alone)
    assert sum(shares) == 40 and all(12 <= share <= 28 for share in shares), shares


def test_the_less_busy_one_gets_the_next_question() -> None:
    with StandIn(Brain(delay_s=0.2)) as slow, StandIn(Brain()) as quick:
        run([slow.url, quick.url], many(60))
        assert len(quick.chats) > 4 * len(slow.chats)


def test_one_question_after_the_other_takes_turns() -> None:
    async def work(pool: Pool) -> None:
        for n in range(9):
            await pool.ask(question(str(n)))

    with ExitStack() as stack:
        servers = [stack.enter_context(StandIn()) for _ in range(3)]
        run([server.url for server in servers], work)
        assert [len(server.chats) for server in servers] == [3, 3, 3]


def test_no_endpoint_gets_more_than_its_slots() -> None:
    open_now: list[int] = []

    with StandIn(Brain(delay_s=0.03)) as server:

        async def work(pool: Pool) -> None:
            async def one(n: int) -> None:
                await pool.ask(question(str(n)))

            tasks = [asyncio.create_task(one(n)) for n in range(30)]
            while not all(task.done() for task in tasks):
                open_now.append(sum(member.busy for member in pool._members))
                await asyncio.sleep(0.005)
            await asyncio.gather(*tasks)

        run([server.url], work, slots=3)
        assert max(open_now) == 3 and server.connections <= 4


def test_a_dead_one_is_left_out_and_its_question_goes_to_another() -> None:
    notes: list[str] = []
    dead = gone()
    with StandIn() as alive:
        replies = run([dead, alive.url], many(20), notes=notes)
        assert len(replies) == 20 and len(alive.chats) == 20
    assert len([note for note in notes if dead in note]) == 1 and "tried again" in notes[0]


def test_one_that_comes_back_is_used_again() -> None:
    notes: list[str] = []
    server = StandIn(port=free_port())

    async def work(pool: Pool) -> None:
        await pool.ask(question("while it is away"))
        await pool.ask(question("while it is away, too"))
        server.start()
        for n in range(200):
            await pool.ask(question(str(n)))
            await asyncio.sleep(0.005)
            if len(server.chats) > 10:
                break

    with StandIn() as alive:
        try:
            run([server.url, alive.url], work, notes=notes)
            assert len(server.chats) > 10
        finally:
            server.stop()
    assert any("answers again" in note for note in notes)


def test_a_single_one_that_is_away_for_a_while_costs_no_answer() -> None:
    server = StandIn(Brain(delay_s=0.01))
    server.start()

    async def work(pool: Pool) -> list[Reply]:
        asking = asyncio.ensure_future(many(30)(pool))
        while len(server.chats) < 8:
            await asyncio.sleep(0.005)
        await asyncio.to_thread(server.stop)
        while not notes:
            await asyncio.sleep(0.02)
        assert not asking.done()
        await asyncio.to_thread(server.start)
        return await asking

    notes: list[str] = []
    try:
        assert len(run([server.url], work, notes=notes)) == 30
    finally:
        server.stop()
    assert [note for note in notes if "answers again" in note] and len(notes) == 2, notes


def test_where_none_comes_back_the_run_ends_with_one_message() -> None:
    one, other = gone(), gone()
    with pytest.raises(EndpointError) as caught:
        run([one, other], many(10), timeout_s=0.5)
    assert one in str(caught.value) and other in str(caught.value) and "none of the 2" in str(caught.value)


def test_a_single_one_that_never_comes_back_ends_the_run_in_its_own_words() -> None:
    dead = gone()
    with pytest.raises(EndpointError) as caught:
        run([dead], many(10), timeout_s=0.5)
    assert str(caught.value).startswith(f"nobody answers at {dead}")


def test_greeting_says_at_once_where_nobody_listens() -> None:
    with pytest.raises(EndpointError, match="nobody answers"):
        run([gone()], Pool.greet, timeout_s=60)
    with pytest.raises(EndpointError, match="none of the 2"):
        run([gone(), gone()], Pool.greet, timeout_s=60)
    notes: list[str] = []
    with StandIn() as alive:
        run([gone(), alive.url], Pool.greet, notes=notes)
    assert len(notes) == 1


@pytest.mark.parametrize(
    "action",
    [openai_error(401, "Invalid API Key"), openai_error(404, "model 'stand-in' not found"),
     openai_error(429, "You exceeded your quota", code="insufficient_quota")],
    ids=["key", "model", "quota"],
)  # fmt: skip
def test_what_waiting_does_not_mend_is_left_out_for_good(action: Action) -> None:
    notes: list[str] = []
    with StandIn(in_turn(action)) as useless, StandIn() as alive:
        assert len(run([useless.url, alive.url], many(30), notes=notes)) == 30
        assert len(useless.chats) <= 2  # its two slots, each once
        assert len([note for note in notes if "going on without it" in note]) >= 1
        with pytest.raises(EndpointError):
            run([useless.url], many(30))


def test_a_sick_one_is_spared_and_its_question_tried_elsewhere() -> None:
    busy = error(503, "busy", {"retry-after": "0"})
    with StandIn(in_turn(busy)) as sick, StandIn() as well:
        assert len(run([sick.url, well.url], many(30))) == 30
        assert len(well.chats) == 30
    with StandIn(in_turn(busy)) as sick, pytest.raises(ChatFailure, match="503"):
        run([sick.url], many(1), slots=1)


def test_a_failure_of_the_question_itself_is_not_tried_elsewhere() -> None:
    overflow = openai_error(400, "this is too long", type="exceed_context_size_error", n_prompt_tokens=9, n_ctx=8)
    with StandIn(in_turn(overflow)) as one, StandIn(in_turn(overflow)) as other:
        with pytest.raises(ChatFailure) as caught:
            run([one.url, other.url], many(1), slots=1)
        assert caught.value.kind == "context" and len(one.chats) + len(other.chats) == 1


def test_the_smallest_context_counts() -> None:
    with StandIn(Brain(n_ctx=8192)) as one, StandIn(Brain(n_ctx=2048)) as other, StandIn() as silent:
        urls = [one.url, other.url, silent.url]
        assert run(urls, lambda pool: pool.context_tokens("stand-in")) == 2048
        assert run([silent.url], lambda pool: pool.context_tokens("stand-in")) is None


def test_a_stop_lets_what_is_under_way_end_and_nothing_else_begin() -> None:
    async def main(server: StandIn) -> list[Reply | BaseException]:
        sign = StopSign()
        async with Pool([server.url], slots=2, sign=sign) as pool:
            tasks = [asyncio.create_task(pool.ask(question(str(n)))) for n in range(6)]
            while len(server.chats) < 2:
                await asyncio.sleep(0.005)
            sign.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

    with StandIn(Brain(delay_s=0.1)) as server:
        results = asyncio.run(main(server))
        assert len(server.chats) == 2
    assert [type(result) for result in results] == [Reply, Reply, Stopped, Stopped, Stopped, Stopped]


def test_a_stop_does_not_wait_for_a_server_that_asked_for_patience() -> None:
    async def main(server: StandIn) -> None:
        sign = StopSign()
        async with Pool([server.url], sign=sign) as pool:
            asking = asyncio.create_task(pool.ask(question()))
            while not server.chats:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
            sign.set()
            with pytest.raises(Stopped):
                await asking
            with pytest.raises(Stopped):
                await pool.ask(question())

    with StandIn(in_turn(error(429, "slow down", {"retry-after": "100"}))) as server:
        asyncio.run(asyncio.wait_for(main(server), 20))


def test_credentials_of_a_lost_one_are_not_told() -> None:
    notes: list[str] = []
    dead = gone().replace("http://", "http://me:hunter2@")
    with StandIn(lambda request: say("42") if request.is_chat else Brain()(request)) as alive:
        run([dead, alive.url], many(4), notes=notes)
    assert notes and not [note for note in notes if "hunter2" in note]


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Pool([])


def test_work_that_may_be_dropped_is_dropped_once_the_sign_is_set() -> None:
    async def main() -> list[str]:
        sign, told = StopSign(), []

        async def work() -> str:
            try:
                await asyncio.sleep(60)
            finally:
                told.append("dropped")
            return "done"

        async def quick() -> str:
            return "quick"

        told.append(await sign.unless_set(quick()))
        waiting = asyncio.create_task(sign.unless_set(work()))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        again = asyncio.create_task(sign.unless_set(work()))
        await asyncio.sleep(0.01)
        sign.set()
        with pytest.raises(Stopped):
            await again
        with pytest.raises(Stopped):
            await sign.unless_set(work())
        return told

    assert asyncio.run(main()) == ["quick", "dropped", "dropped"]
