import os
from functools import partial

import psutil
import pytest
from losses import kill


@pytest.fixture(scope="session")
def cluster():
    """Two nodes of one core each."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    # As `equipoise.cluster` starts Ray: workers are not to wait for other tests.
    os.environ.setdefault("RAY_worker_niceness", "0")
    store = {"object_store_memory": 80 * 2**20}
    # A node that does not answer is lost after three seconds, not after fifteen.
    config = {"health_check_period_ms": 1_000, "health_check_failure_threshold": 3}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": config, **store}
    found = Cluster(initialize_head=True, head_node_args=head)
    found.add_node(num_cpus=1, **store)
    ray.init(address=found.address, logging_level="ERROR", log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.fixture
def lose(cluster):
    """A function that kills a worker of another node than the first, and removes that node."""
    cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes(timeout=60)

    def lose_next(name):
        for node in cluster.list_all_nodes():
            raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
            if node is not cluster.head_node and kill(name, raylet):
                cluster.remove_node(node, allow_graceful=False)
                return True
        return False

    return lambda name: partial(lose_next, name)
