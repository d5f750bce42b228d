"""What can be called in an expression: every signature, for the checker.

What a signature does is declared where it is written (:mod:`kubevouch.cel.functions`); here is what it takes and gives.
The names of signatures are those of cel-go and Kubernetes, because estimates of cost go by them.

Source: cel-go common/stdlib, cel/library.go, ext/{strings,sets,lists,comprehensions}.go (0.26),
k8s.io/apiserver/pkg/cel/library and pkg/cel/environment/base.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from kubevouch.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    opaque,
    optional_of,
    parameter,
    struct,
    type_of,
)


class Signature(msgspec.Struct, frozen=True):
    """One way to call a function. ``generic`` if it has parameters of type."""

    name: str
    is_member: bool
    parameters: tuple[Type, ...]
    result: Type
    generic: bool


_SIMPLE = {
    "bool": BOOL, "int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES, "dyn": DYN,
    "duration": DURATION, "timestamp": TIMESTAMP, "ip": opaque("net.IP"), "cidr": opaque("net.CIDR"),
    "url": struct("kubernetes.URL"), "quantity": struct("kubernetes.Quantity"), "semver": struct("kubernetes.Semver"),
    "format": struct("kubernetes.NamedFormat"), "authorizer": struct("kubernetes.authorization.Authorizer"),
    "path": struct("kubernetes.authorization.PathCheck"), "group": struct("kubernetes.authorization.GroupCheck"),
    "resource": struct("kubernetes.authorization.ResourceCheck"),
    "decision": struct("kubernetes.authorization.Decision"),
}  # fmt: skip

TYPE_NAMES: Mapping[str, Type] = {
    "bool": type_of(BOOL), "int": type_of(INT), "uint": type_of(UINT), "double": type_of(DOUBLE),
    "string": type_of(STRING), "bytes": type_of(BYTES), "list": type_of(list_of(DYN)), "map": type_of(map_of(DYN, DYN)),
    "null_type": type_of(NULL), "type": type_of(Type("type", "type")),
    "google.protobuf.Timestamp": type_of(TIMESTAMP), "google.protobuf.Duration": type_of(DURATION),
    "optional_type": type_of(optional_of(DYN)), "net.IP": type_of(_SIMPLE["ip"]), "net.CIDR": type_of(_SIMPLE["cidr"]),
}  # fmt: skip
"""The names that are types as values."""

# name: signature(types)result ...; a dot in front of the name of a signature makes it a method.
_LANGUAGE = """
_?_:_: conditional(bool,T,T)T
_&&_: logical_and(bool,bool)bool
_||_: logical_or(bool,bool)bool
!_: logical_not(bool)bool
@not_strictly_false: not_strictly_false(bool)bool
_==_: equals(T,T)bool
_!=_: not_equals(T,T)bool
_+_: add_bytes(bytes,bytes)bytes add_double(double,double)double add_duration_duration(duration,duration)duration
 add_duration_timestamp(duration,timestamp)timestamp add_timestamp_duration(timestamp,duration)timestamp
 add_int64(int,int)int add_list(list(T),list(T))list(T) add_string(string,string)string add_uint64(uint,uint)uint
_-_: subtract_double(double,double)double subtract_duration_duration(duration,duration)duration
 subtract_int64(int,int)int subtract_timestamp_duration(timestamp,duration)timestamp
 subtract_timestamp_timestamp(timestamp,timestamp)duration subtract_uint64(uint,uint)uint
_*_: multiply_double(double,double)double multiply_int64(int,int)int multiply_uint64(uint,uint)uint
_/_: divide_double(double,double)double divide_int64(int,int)int divide_uint64(uint,uint)uint
_%_: modulo_int64(int,int)int modulo_uint64(uint,uint)uint
-_: negate_double(double)double negate_int64(int)int
_[_]: index_list(list(T),int)T index_map(map(K,V),K)V optional_list_index_int(optional(list(V)),int)optional(V)
 optional_map_index_value(optional(map(K,V)),K)optional(V)
_[?_]: list_optindex_optional_int(list(V),int)optional(V)
 optional_list_optindex_optional_int(optional(list(V)),int)optional(V)
 map_optindex_optional_value(map(K,V),K)optional(V)
 optional_map_optindex_optional_value(optional(map(K,V)),K)optional(V)
@in: in_list(T,list(T))bool in_map(K,map(K,V))bool
size: size_bytes(bytes)int .bytes_size(bytes)int size_list(list(T))int .list_size(list(T))int size_map(map(K,V))int
 .map_size(map(K,V))int size_string(string)int .string_size(string)int
type: type(T)type(T)
dyn: to_dyn(T)dyn
bool: bool_to_bool(bool)bool string_to_bool(string)bool
bytes: bytes_to_bytes(bytes)bytes string_to_bytes(string)bytes
double: double_to_double(double)double int64_to_double(int)double string_to_double(string)double
 uint64_to_double(uint)double
duration: duration_to_duration(duration)duration int64_to_duration(int)duration string_to_duration(string)duration
int: int64_to_int64(int)int double_to_int64(double)int duration_to_int64(duration)int string_to_int64(string)int
 timestamp_to_int64(timestamp)int uint64_to_int64(uint)int
string: string_to_string(string)string bool_to_string(bool)string bytes_to_string(bytes)string
 double_to_string(double)string duration_to_string(duration)string int64_to_string(int)string
 timestamp_to_string(timestamp)string uint64_to_string(uint)string ip_to_string(ip)string cidr_to_string(cidr)string
timestamp: timestamp_to_timestamp(timestamp)timestamp int64_to_timestamp(int)timestamp
 string_to_timestamp(string)timestamp
uint: uint64_to_uint64(uint)uint double_to_uint64(double)uint int64_to_uint64(int)uint string_to_uint64(string)uint
contains: .contains_string(string,string)bool
endsWith: .ends_with_string(string,string)bool
startsWith: .starts_with_string(string,string)bool
matches: matches(string,string)bool .matches_string(string,string)bool
getFullYear: .timestamp_to_year(timestamp)int .timestamp_to_year_with_tz(timestamp,string)int
getMonth: .timestamp_to_month(timestamp)int .timestamp_to_month_with_tz(timestamp,string)int
getDate: .timestamp_to_day_of_month_1_based(timestamp)int
 .timestamp_to_day_of_month_1_based_with_tz(timestamp,string)int
getDayOfMonth: .timestamp_to_day_of_month(timestamp)int .timestamp_to_day_of_month_with_tz(timestamp,string)int
getDayOfWeek: .timestamp_to_day_of_week(timestamp)int .timestamp_to_day_of_week_with_tz(timestamp,string)int
getDayOfYear: .timestamp_to_day_of_year(timestamp)int .timestamp_to_day_of_year_with_tz(timestamp,string)int
getHours: .timestamp_to_hours(timestamp)int .timestamp_to_hours_with_tz(timestamp,string)int
 .duration_to_hours(duration)int
getMinutes: .timestamp_to_minutes(timestamp)int .timestamp_to_minutes_with_tz(timestamp,string)int
 .duration_to_minutes(duration)int
getSeconds: .timestamp_to_seconds(timestamp)int .timestamp_to_seconds_tz(timestamp,string)int
 .duration_to_seconds(duration)int
getMilliseconds: .timestamp_to_milliseconds(timestamp)int .timestamp_to_milliseconds_with_tz(timestamp,string)int
 .duration_to_milliseconds(duration)int
optional.of: optional_of(V)optional(V)
optional.ofNonZeroValue: optional_ofNonZeroValue(V)optional(V)
optional.none: optional_none()optional(V)
value: .optional_value(optional(V))V
hasValue: .optional_hasValue(optional(V))bool
or: .optional_or_optional(optional(V),optional(V))optional(V)
orValue: .optional_orValue_value(optional(V),V)V
"""
_LIBRARIES = """
charAt: .string_char_at_int(string,int)string
indexOf: .string_index_of_string(string,string)int .string_index_of_string_int(string,string,int)int
 .list_a_index_of_int(list(T),T)int
lastIndexOf: .string_last_index_of_string(string,string)int .string_last_index_of_string_int(string,string,int)int
 .list_a_last_index_of_int(list(T),T)int
lowerAscii: .string_lower_ascii(string)string
upperAscii: .string_upper_ascii(string)string
replace: .string_replace_string_string(string,string,string)string
 .string_replace_string_string_int(string,string,string,int)string
split: .string_split_string(string,string)list(string) .string_split_string_int(string,string,int)list(string)
substring: .string_substring_int(string,int)string .string_substring_int_int(string,int,int)string
trim: .string_trim(string)string
join: .list_join(list(string))string .list_join_string(list(string),string)string
format: .string_format(string,list(dyn))string
strings.quote: strings_quote(string)string
find: .string_find_string(string,string)string
findAll: .string_find_all_string(string,string)list(string) .string_find_all_string_int(string,string,int)list(string)
sets.contains: list_sets_contains_list(list(T),list(T))bool
sets.equivalent: list_sets_equivalent_list(list(T),list(T))bool
sets.intersects: list_sets_intersects_list(list(T),list(T))bool
slice: .list_slice(list(T),int,int)list(T)
flatten: .list_flatten(list(list(T)))list(T) .list_flatten_int(list(dyn),int)list(dyn)
lists.range: lists_range(int)list(int)
reverse: .list_reverse(list(T))list(T)
distinct: .list_distinct(list(T))list(T)
cel.@mapInsert: @mapInsert_map_key_value(map(K,V),K,V)map(K,V) @mapInsert_map_map(map(K,V),map(K,V))map(K,V)
url: string_to_url(string)url
isURL: is_url_string(string)bool
getScheme: .url_get_scheme(url)string
getHost: .url_get_host(url)string
getHostname: .url_get_hostname(url)string
getPort: .url_get_port(url)string
getEscapedPath: .url_get_escaped_path(url)string
getQuery: .url_get_query(url)map(string,list(string))
ip: string_to_ip(string)ip .cidr_ip(cidr)ip
isIP: is_ip(string)bool
ip.isCanonical: ip_is_canonical(string)bool
family: .ip_family(ip)int
isUnspecified: .ip_is_unspecified(ip)bool
isLoopback: .ip_is_loopback(ip)bool
isLinkLocalMulticast: .ip_is_link_local_multicast(ip)bool
isLinkLocalUnicast: .ip_is_link_local_unicast(ip)bool
isGlobalUnicast: .ip_is_global_unicast(ip)bool
cidr: string_to_cidr(string)cidr
isCIDR: is_cidr(string)bool
containsIP: .cidr_contains_ip_string(cidr,string)bool .cidr_contains_ip_ip(cidr,ip)bool
containsCIDR: .cidr_contains_cidr_string(cidr,string)bool .cidr_contains_cidr(cidr,cidr)bool
masked: .cidr_masked(cidr)cidr
prefixLength: .cidr_prefix_length(cidr)int
quantity: string_to_quantity(string)quantity
isQuantity: is_quantity_string(string)bool
sign: quantity_sign(quantity)int
asInteger: .quantity_get_integer(quantity)int
isInteger: .quantity_is_integer(quantity)bool
asApproximateFloat: .quantity_get_float(quantity)double
add: .quantity_add(quantity,quantity)quantity .quantity_add_int(quantity,int)quantity
sub: .quantity_sub(quantity,quantity)quantity .quantity_sub_int(quantity,int)quantity
isLessThan: .quantity_is_less_than(quantity,quantity)bool .semver_is_less_than(semver,semver)bool
isGreaterThan: .quantity_is_greater_than(quantity,quantity)bool .semver_is_greater_than(semver,semver)bool
compareTo: .quantity_compare_to(quantity,quantity)int .semver_compare_to(semver,semver)int
semver: string_to_semver(string)semver string_bool_to_semver(string,bool)semver
isSemver: is_semver_string(string)bool is_semver_string_bool(string,bool)bool
major: .semver_major(semver)int
minor: .semver_minor(semver)int
patch: .semver_patch(semver)int
format.named: format_named(string)optional(format)
validate: .format_validate(format,string)optional(list(string))
path: .authorizer_path(authorizer,string)path
group: .authorizer_group(authorizer,string)group
serviceAccount: .authorizer_serviceaccount(authorizer,string,string)authorizer
resource: .groupcheck_resource(group,string)resource
subresource: .resourcecheck_subresource(resource,string)resource
namespace: .resourcecheck_namespace(resource,string)resource
name: .resourcecheck_name(resource,string)resource
fieldSelector: .authorizer_fieldselector(resource,string)resource
labelSelector: .authorizer_labelselector(resource,string)resource
check: .pathcheck_check(path,string)decision .resourcecheck_check(resource,string)decision
allowed: .decision_allowed(decision)bool
reason: .decision_reason(decision)string
errored: .decision_errored(decision)bool
error: .decision_error(decision)string
"""
_FORMATS = (
    "dns1123Label dns1123Subdomain dns1035Label qualifiedName dns1123LabelPrefix dns1123SubdomainPrefix "
    "dns1035LabelPrefix labelValue uri uuid byte date datetime"
)
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ADDABLE = ("int", "uint", "double", "duration")
_SIGNATURE = re.compile(r"(\.?)([@\w]+)\(((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*)\)(\S+)")
_WIRE = {"int": "int64", "uint": "uint64"}


@cache
def declarations() -> Mapping[str, tuple[Signature, ...]]:
    """Every function by its name."""
    found: dict[str, tuple[Signature, ...]] = {}
    for line in re.sub(r"\n ", " ", _LANGUAGE + _LIBRARIES).splitlines() + list(_generated()):
        name, _, rest = line.partition(": ")
        if rest:
            found[name] = tuple(_signature(*match.groups()) for match in _SIGNATURE.finditer(rest))
    return found


def _generated() -> Iterator[str]:
    for sign, word in (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")):
        signatures = [f"{word}_{_WIRE.get(each, each)}({each},{each})bool" for each in _COMPARABLE]
        numbers = ("int", "uint", "double")
        signatures += [
            f"{word}_{_WIRE.get(one, one)}_{_WIRE.get(two, two)}({one},{two})bool"
            for one in numbers
            for two in numbers
            if one != two
        ]
        yield f"{sign}: {' '.join(signatures)}"
    yield "isSorted: " + " ".join(f".list_{each}_is_sorted_bool(list({each}))bool" for each in _COMPARABLE)
    yield "sum: " + " ".join(f".list_{each}_sum_{each}(list({each})){each}" for each in _ADDABLE)
    for name in ("min", "max"):
        yield f"{name}: " + " ".join(f".list_{each}_{name}_{each}(list({each})){each}" for each in _COMPARABLE)
    yield "sort: " + " ".join(f".list_{each}_sort(list({each}))list({each})" for each in _COMPARABLE)
    yield "@sortByAssociatedKeys: " + " ".join(
        f".list_{each}_sortByAssociatedKeys(list(T),list({each}))list(T)" for each in _COMPARABLE
    )
    for name in _FORMATS.split():
        yield f"format.{name}: format_{name}()format"


def _signature(dot: str, name: str, parameters: str, result: str) -> Signature:
    types = tuple(_type(each) for each in _split(parameters))
    return Signature(name, bool(dot), types, _type(result), any(_is_generic(each) for each in types))


def named_type(text: str) -> Type:
    """The type that prints so; any for what prints as nothing that is known here."""
    if text == "null_type":
        return NULL
    known = next((each for each in _SIMPLE.values() if each.name == text), None)
    if known is not None:
        return known
    outer, _, inner = text.partition("(")
    parts = [named_type(each.strip()) for each in _split(inner[:-1])]
    if outer == "list" and len(parts) == 1:
        return list_of(parts[0])
    return map_of(*parts) if outer == "map" and len(parts) == 2 else DYN


def _split(text: str) -> list[str]:
    """The parts between commas that are in no parentheses."""
    found, depth, start = [], 0, 0
    for place, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and not depth:
            found.append(text[start:place])
            start = place + 1
    return [*found, text[start:]] if text else []


def _type(text: str) -> Type:
    outer, _, inner = text.partition("(")
    parts = [_type(each) for each in _split(inner[:-1])]
    if not parts:
        return _SIMPLE.get(outer) or parameter(outer)
    if outer == "map":
        return map_of(*parts)
    if outer == "list":
        return list_of(parts[0])
    return (type_of if outer == "type" else optional_of)(parts[0])


def _is_generic(kind: Type) -> bool:
    return kind.kind == "param" or any(map(_is_generic, kind.parameters))
