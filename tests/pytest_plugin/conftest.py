from tests.pytest_plugin.project import project, workers

__all__ = ["project", "workers"]
