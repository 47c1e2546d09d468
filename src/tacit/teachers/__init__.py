"""Private records to answers: shards, teachers, and where they are trained.

Everything here is secret until a mechanism releases it. `shard_of` assigns records to teachers,
`predict_with_teachers` trains them and returns what each answers to the public queries.
"""

from tacit.teachers.cluster import DaskCluster
from tacit.teachers.executors import Executor, Serial
from tacit.teachers.kernel_ridge import KernelRidgeTeachers
from tacit.teachers.local import LocalProcesses
from tacit.teachers.predict import predict_with_teachers
from tacit.teachers.shards import place_of, record_ids, shard_key, shard_of, unit_names
from tacit.teachers.tasks import Shard, TeacherFamily
from tacit.teachers.torch_teacher import Recipe, TorchTeacher

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
