#!/usr/bin/env python3
# Copyright The Interlock Authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes vectors.json with nothing but Python's own library: a second implementation, to hold the first against.

Where all members are strings, small integers, arrays and objects, and all names are ASCII, sorting names and leaving out
blanks is what RFC 8785 asks for. Strings are escaped as its section 3.2.2.2 has it.
"""

import hashlib
import json


def string(s):
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    return '"' + "".join(short.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 0x20 else c) for c in s) + '"'


def canonical(v):
    if isinstance(v, dict):
        return "{" + ",".join(string(k) + ":" + canonical(v[k]) for k in sorted(v)) + "}"
    if isinstance(v, list):
        return "[" + ",".join(canonical(x) for x in v) + "]"
    if isinstance(v, str):
        return string(v)
    if v is None or isinstance(v, bool):
        return {None: "null", True: "true", False: "false"}[v]
    assert isinstance(v, int) and abs(v) <= 2**53
    return str(v)


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def operation(uid, call, arguments):
    parts = [b"interlock.dev/operation/v1", uid.encode(), call.encode(), arguments]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def vector(name, raw, preview=None, **other):
    uid, call = other.pop("runUID", "6f1c0c1e-9d0b-4a0e-8f0e-3b1f8f1d2a3b"), other.pop("callID", "s3c1")
    arguments = canonical(json.loads(raw)).encode()
    subject = {
        "version": "interlock.dev/approval/v1",
        "runUID": uid,
        "callID": call,
        "principal": "system:serviceaccount:shop:agent",
        "operationID": operation(uid, call, arguments),
        "bindingUID": "0b9a7d3e-52a5-4a5c-a8b7-1c9e2d3f4a5b",
        "bindingGeneration": 4,
        "definitionDigest": sha256(b"a definition"),
        "endpoint": "https://payments.tools.svc:8443 refund_payment",
        "argumentsDigest": sha256(arguments),
        "previewDigest": sha256(canonical(preview).encode()) if preview else "",
        "resourceVersion": preview["resourceVersion"] if preview else "",
        "expires": "2026-01-02T04:04:05Z",
    } | other
    return {
        "name": name,
        "arguments": raw,
        "canonicalArguments": arguments.decode(),
        "preview": preview,
        "canonicalPreview": canonical(preview) if preview else "",
        "subject": subject,
        "canonicalSubject": canonical(subject),
        "digest": sha256(canonical(subject).encode()),
    }


preview = {
    "id": "pv_1",
    "resourceVersion": "7",
    "summary": "Refund 12.50 EUR of payment pay_1001.",
    "changes": "-refunded: 0.00 EUR\n+refunded: 12.50 EUR",
    "resources": ["payment/pay_1001"],
    "cost": "12.50 EUR",
}

vectors = [
    vector("with a preview", '{"paymentId":"pay_1001","amountMinor":1250,"currency":"EUR"}', preview),
    vector("the same arguments, written otherwise", '{ "currency": "EUR", "amountMinor": 1250, "paymentId": "pay_\\u0031001" }', preview),
    vector("without a preview", '{"paymentId":"pay_1001"}'),
    vector("no arguments", "{}"),
    vector("null is not absent", '{"note":null}'),
    vector("an empty object is not absent", '{"note":{}}'),
    vector("text of all kinds", '{"note":"caf\\u00e9 \\u20ac \\ud83d\\ude00 \\u0000 \\u001f \\" \\\\ / \\u2028 <&>"}'),
    vector("the largest integers", '{"a":9007199254740992,"b":-9007199254740992}'),
    vector("another call of the run", '{"paymentId":"pay_1001"}', callID="s3c2"),
    vector("another run", '{"paymentId":"pay_1001"}', runUID="00000000-0000-4000-8000-000000000000"),
    vector("a later generation of the binding", '{"paymentId":"pay_1001"}', bindingGeneration=5),
    vector("a second longer", '{"paymentId":"pay_1001"}', expires="2026-01-02T04:04:06Z"),
]

with open("vectors.json", "w", encoding="utf-8") as f:
    json.dump(vectors, f, indent=2, ensure_ascii=True)
    f.write("\n")
