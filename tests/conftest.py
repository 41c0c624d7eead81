"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# The machine may be busy with something else: slowness is not what is tested.
settings.register_profile(
    "pod",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pod")
