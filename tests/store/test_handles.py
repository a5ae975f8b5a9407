from typing import cast

import pytest
from clickhouse_connect.driver.client import Client

from cortex.errors import StoreUnavailable
from cortex.store.handles import HandlePool


class Handle:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def opened() -> Client:
    return cast("Client", Handle())


def is_closed(client: Client) -> bool:
    return cast("Handle", client).is_closed


def test_a_handle_given_back_is_lent_again() -> None:
    pool = HandlePool(opened, size=2)
    with pool.lend(1) as first:
        pass
    with pool.lend(1) as again, pool.lend(1) as second:
        assert again is first
        assert second is not first


def test_no_more_handles_are_open_than_the_pool_has() -> None:
    pool = HandlePool(opened, size=1)
    with pool.lend(1), pytest.raises(TimeoutError), pool.lend(0.01):
        pass


def test_a_handle_that_did_not_open_takes_no_place() -> None:
    attempts = [OSError("away"), None]

    def open_second_time() -> Client:
        fault = attempts.pop(0)
        if fault:
            raise fault
        return opened()

    pool = HandlePool(open_second_time, size=1)
    with pytest.raises(OSError, match="away"), pool.lend(1):
        pass
    with pool.lend(1):
        pass


def test_a_closed_pool_closes_what_comes_back_late_and_lends_no_more() -> None:
    pool = HandlePool(opened, size=2)
    with pool.lend(1) as late:
        with pool.lend(1) as early:
            pass
        pool.close(timeout_s=0)
        assert is_closed(early)
        assert not is_closed(late)
    assert is_closed(late)
    with pytest.raises(StoreUnavailable, match="The store is closed"), pool.lend(1):
        pass
