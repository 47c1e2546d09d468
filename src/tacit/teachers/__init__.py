"""Private records to answers: shards, teachers, and where they are trained.

Everything here is secret until a mechanism releases it. `shard_of` assigns records to teachers,
`predict_with_teachers` trains them and returns their answers to the public queries.
"""

from tacit.teachers.checkpoints import fingerprint as fingerprint
from tacit.teachers.executors import DaskCluster, Executor, LocalProcesses, Serial
from tacit.teachers.executors import choose_executor as choose_executor
from tacit.teachers.families import KernelRidgeTeachers, Recipe, TorchTeacher
from tacit.teachers.families import one_torch_thread as one_torch_thread
from tacit.teachers.families import scaled_logistic as scaled_logistic
from tacit.teachers.pipeline import Run as Run
from tacit.teachers.pipeline import Shards as Shards
from tacit.teachers.pipeline import ask_teachers as ask_teachers
from tacit.teachers.pipeline import predict_with_shards as predict_with_shards
from tacit.teachers.pipeline import predict_with_teachers
from tacit.teachers.pipeline import sharded as sharded
from tacit.teachers.shards import place_of, record_ids, shard_key, shard_of, unit_names
from tacit.teachers.shards import places_of as places_of
from tacit.teachers.shards import teachers_of as teachers_of
from tacit.teachers.shards import teaching_order as teaching_order
from tacit.teachers.shards import unit_hashes as unit_hashes
from tacit.teachers.tasks import Answer as Answer
from tacit.teachers.tasks import Shard, TeacherFamily
from tacit.teachers.tasks import Task as Task
from tacit.teachers.tasks import attempt as attempt
from tacit.teachers.tasks import on_one_thread as on_one_thread

__all__ = [
    "DaskCluster",
    "Executor",
    "KernelRidgeTeachers",
    "LocalProcesses",
    "Recipe",
    "Serial",
    "Shard",
    "TeacherFamily",
    "TorchTeacher",
    "place_of",
    "predict_with_teachers",
    "record_ids",
    "shard_key",
    "shard_of",
    "unit_names",
]
