"""Workers that train together, as threads of this process."""

import threading

from equipoise.training.workers import train_together


class Threads:
    """Workers that are threads of this process."""

    def __init__(self, count):
        self.count = count
        self._barrier, self._parts = threading.Barrier(count), [None] * count

    def each(self, work):
        """What work(number) returns in every worker."""
        found = [None] * self.count

        def act(number):
            try:
                with train_together(Place(self, number)):
                    found[number] = work(number)
            except BaseException as failure:
                self._barrier.abort()
                found[number] = failure

        threads = [threading.Thread(target=act, args=(k,), daemon=True) for k in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        failures = [each for each in found if isinstance(each, BaseException)]
        if failures:
            raise failures[0]
        return found

    def add(self, number, values):
        self._parts[number] = values.clone()
        self._barrier.wait(timeout=60)
        result = sum(self._parts[1:], self._parts[0])
        self._barrier.wait(timeout=60)
        values.copy_(result)


class Place:
    def __init__(self, threads, number):
        self.threads, self.number, self.count = threads, number, threads.count

    def add(self, values):
        self.threads.add(self.number, values)
