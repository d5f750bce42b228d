"""The part of etcd's API that a store needs (etcd 3.6, rpc.proto and kv.proto), as protobuf messages.

Fields keep their presence, so that a comparison with 0 is written. What is left out here is skipped on reading.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "kubevouch.etcd"
_KINDS = {
    "bytes": _Field.TYPE_BYTES, "string": _Field.TYPE_STRING, "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64, "bool": _Field.TYPE_BOOL,
}  # fmt: skip

# Message: fields as "number name kind"; a kind that is no scalar is a message, a star repeats it. Enumerations are
# numbers. What etcd puts into a oneof is set by itself alone here.
_MESSAGES = {
    "ResponseHeader": "1 cluster_id uint64, 2 member_id uint64, 3 revision int64, 4 raft_term uint64",
    "KeyValue": "1 key bytes, 2 create_revision int64, 3 mod_revision int64, 4 version int64,"
    "5 value bytes, 6 lease int64",
    "Event": "1 type int64, 2 kv KeyValue, 3 prev_kv KeyValue",
    "RangeRequest": "1 key bytes, 2 range_end bytes, 3 limit int64, 4 revision int64, 8 keys_only bool,"
    "9 count_only bool",
    "RangeResponse": "1 header ResponseHeader, 2 kvs KeyValue*, 3 more bool, 4 count int64",
    "PutRequest": "1 key bytes, 2 value bytes, 3 lease int64",
    "DeleteRangeRequest": "1 key bytes, 2 range_end bytes",
    "DeleteRangeResponse": "1 header ResponseHeader, 2 deleted int64",
    "RequestOp": "1 request_range RangeRequest, 2 request_put PutRequest, 3 request_delete_range DeleteRangeRequest",
    "ResponseOp": "1 response_range RangeResponse, 3 response_delete_range DeleteRangeResponse",
    "Compare": "1 result int64, 2 target int64, 3 key bytes, 4 version int64, 6 mod_revision int64",
    "TxnRequest": "1 compare Compare*, 2 success RequestOp*, 3 failure RequestOp*",
    "TxnResponse": "1 header ResponseHeader, 2 succeeded bool, 3 responses ResponseOp*",
    "CompactionRequest": "1 revision int64",
    "CompactionResponse": "1 header ResponseHeader",
    "WatchCreateRequest": "1 key bytes, 2 range_end bytes, 3 start_revision int64, 4 progress_notify bool,"
    "6 prev_kv bool, 7 watch_id int64",
    "WatchProgressRequest": "",
    "WatchRequest": "1 create_request WatchCreateRequest, 3 progress_request WatchProgressRequest",
    "WatchResponse": "1 header ResponseHeader, 2 watch_id int64, 3 created bool, 4 canceled bool,"
    "5 compact_revision int64, 6 cancel_reason string, 11 events Event*",
    "LeaseGrantRequest": "1 TTL int64, 2 ID int64",
    "LeaseGrantResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64",
    "LeaseRevokeRequest": "1 ID int64",
    "LeaseRevokeResponse": "1 header ResponseHeader",
    "LeaseTimeToLiveRequest": "1 ID int64",
    "LeaseTimeToLiveResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64",
    "HashKVRequest": "1 revision int64",
    "HashKVResponse": "1 header ResponseHeader, 2 hash int64, 3 compact_revision int64",
    "StatusRequest": "",
    "StatusResponse": "1 header ResponseHeader, 2 version string, 3 dbSize int64, 8 errors string*",
    "AuthenticateRequest": "1 name string, 2 password string",
    "AuthenticateResponse": "1 header ResponseHeader, 2 token string",
}


def _classes() -> dict[str, Any]:
    # proto3 reads text that is no UTF-8 as an error; cancel_reason may quote a key, so it is the one that matters not.
    file = descriptor_pb2.FileDescriptorProto(
        name="kubevouch_etcd.proto", package=_PACKAGE, syntax="editions", edition=descriptor_pb2.EDITION_2023
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in filter(None, fields.split(",")):
            number, field_name, kind = field.split()
            plain = kind.removesuffix("*")
            added = message.field.add(name=field_name, number=int(number))
            added.label = _Field.LABEL_REPEATED if plain != kind else _Field.LABEL_OPTIONAL
            added.type = _KINDS.get(plain, _Field.TYPE_MESSAGE)
            if plain not in _KINDS:
                added.type_name = f".{_PACKAGE}.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_made = _classes()

AuthenticateRequest = _made["AuthenticateRequest"]
Compare = _made["Compare"]
CompactionRequest = _made["CompactionRequest"]
DeleteRangeRequest = _made["DeleteRangeRequest"]
HashKVRequest = _made["HashKVRequest"]
LeaseGrantRequest = _made["LeaseGrantRequest"]
LeaseRevokeRequest = _made["LeaseRevokeRequest"]
LeaseTimeToLiveRequest = _made["LeaseTimeToLiveRequest"]
PutRequest = _made["PutRequest"]
RangeRequest = _made["RangeRequest"]
RequestOp = _made["RequestOp"]
StatusRequest = _made["StatusRequest"]
TxnRequest = _made["TxnRequest"]
TxnResponse = _made["TxnResponse"]
WatchCreateRequest = _made["WatchCreateRequest"]
WatchProgressRequest = _made["WatchProgressRequest"]
WatchRequest = _made["WatchRequest"]
WatchResponse = _made["WatchResponse"]

VERSION, MOD_REVISION = 0, 2
"""What a comparison looks at."""
DELETE = 1
"""An event's type."""


class Method(NamedTuple):
    """One call of etcd's, with what is sent and what comes back."""

    path: str
    request: Any
    response: Any
    repeats: bool
    """Whether sending it twice is as good as once."""


RANGE = Method("/etcdserverpb.KV/Range", RangeRequest, _made["RangeResponse"], repeats=True)
TXN = Method("/etcdserverpb.KV/Txn", TxnRequest, TxnResponse, repeats=False)
COMPACT = Method("/etcdserverpb.KV/Compact", CompactionRequest, _made["CompactionResponse"], repeats=True)
LEASE_GRANT = Method("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest, _made["LeaseGrantResponse"], repeats=True)
LEASE_REVOKE = Method("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest, _made["LeaseRevokeResponse"], repeats=True)
LEASE_TIME_TO_LIVE = Method(
    "/etcdserverpb.Lease/LeaseTimeToLive", LeaseTimeToLiveRequest, _made["LeaseTimeToLiveResponse"], repeats=True
)
HASH_KV = Method("/etcdserverpb.Maintenance/HashKV", HashKVRequest, _made["HashKVResponse"], repeats=True)
STATUS = Method("/etcdserverpb.Maintenance/Status", StatusRequest, _made["StatusResponse"], repeats=True)
AUTHENTICATE = Method(
    "/etcdserverpb.Auth/Authenticate", AuthenticateRequest, _made["AuthenticateResponse"], repeats=True
)
WATCH_PATH = "/etcdserverpb.Watch/Watch"
