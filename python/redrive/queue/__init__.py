"""The durable queue: an application's tasks, and the workers that carry them out."""

from redrive.queue.app import App
from redrive.queue.context import Context, Parent
from redrive.queue.task import DeferredJob, Task
from redrive.queue.worker import Worker
from redrive.queue.workflow import After, Workflow, chain, group

__all__ = ["After", "App", "Context", "DeferredJob", "Parent", "Task", "Worker", "Workflow", "chain", "group"]
