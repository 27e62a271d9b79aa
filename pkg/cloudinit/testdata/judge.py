"""Judges documents with PyYAML and cloud-init. Reads {"pairs": [...], "kinds": [...], "merges": [...]} from stdin."""
import json
import logging
import os
import sys
import tempfile

logging.disable(logging.CRITICAL)

import yaml
from cloudinit import handlers, helpers, user_data, util
from cloudinit.config import schema
from cloudinit.handlers.cloud_config import CloudConfigPartHandler
from cloudinit.handlers.shell_script import ShellScriptPartHandler

SCRATCH = tempfile.mkdtemp()


class Paths:
    cfgs = {}

    def get_ipath_cur(self, name):
        return os.path.join(SCRATCH, name)

    get_ipath = get_ipath_cur


def processor():
    p = user_data.UserDataProcessor.__new__(user_data.UserDataProcessor)
    p.paths, p.ssl_details = Paths(), {}
    return p


def same(a, b, depth=0):
    """Equality that tells 1 from True and 1.0, and survives recursion."""
    if depth > 40:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            k in b and same(v, b[k], depth + 1) for k, v in a.items()
        )
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y, depth + 1) for x, y in zip(a, b))
    return a == b or a != a


def load(text):
    value = yaml.safe_load(text)
    return {} if value is None else value


def schema_errors(config):
    try:
        schema.validate_cloudconfig_schema(config, strict=True, log_deprecations=False)
        return 0
    except schema.SchemaValidationError as e:
        return len(e.schema_errors)


def judge_pair(p):
    try:
        before = load(p["before"])
    except Exception as e:
        return "the original is unreadable: %s" % e
    try:
        after = load(p["after"])
    except Exception as e:
        return "the result is unreadable: %s" % e
    if p.get("schema") and schema_errors(after) > schema_errors(before):
        return "the schema finds more faults than before"
    for key, entry in (p["entries"] or {}).items():
        want = list(before.get(key) or [])
        if entry:
            want.append(entry)
        if entry or key in before:
            if not same(after.get(key) or [], want):
                return "%s is %r" % (key, after.get(key))
        before.pop(key, None)
        after.pop(key, None)
    return "" if same(before, after) else "something else changed: %r became %r" % (before, after)


def types_of(blob):
    found = []
    for part in processor().process(blob).walk():
        if not part.is_multipart():
            found.append(part.get_content_type())
    return found


def judge_kind(k):
    try:
        return ",".join(types_of(bytes.fromhex(k)))
    except Exception as e:
        return "error: %s" % e


def judge_load(text):
    """What cloud-init makes of a lone cloud-config: "mapping", "nothing" or "error"."""
    try:
        value = yaml.safe_load(text)
    except Exception:
        return "error"
    return "mapping" if isinstance(value, dict) else "empty" if value is None else "error"


def consume(blob, name):
    """The cloud-config and the scripts that cloud-init gets from one document."""
    config = CloudConfigPartHandler(Paths(), cloud_config_path=name)
    scripts = {}
    config.handle_part(None, handlers.CONTENT_START, None, None, None, {})
    for i, part in enumerate(processor().process(blob).walk()):
        if part.is_multipart():
            continue
        ctype, payload = part.get_content_type(), util.fully_decoded_payload(part)
        if not payload:
            continue
        if ctype in config.list_types():
            config.handle_part(None, ctype, "part-%03d" % i, payload, None, dict(part))
        elif ctype == "text/x-shellscript":
            scripts[part.get_filename() or "part-%03d" % i] = payload
        else:
            scripts["other-%s-%d" % (ctype, i)] = payload if isinstance(payload, str) else ""
    config.handle_part(None, handlers.CONTENT_END, None, None, None, {})
    with open(os.path.join(SCRATCH, name)) as f:
        return util.load_yaml(f.read()) or {}, scripts


def judge_merge(m):
    user, user_scripts = consume(bytes.fromhex(m["user"]), "cloud_config")
    vendor, vendor_scripts = consume(bytes.fromhex(m["vendor"]), "vendor_cloud_config")
    switch = util.mergemanydict([user, {"vendor_data": {"enabled": True}}])["vendor_data"]
    if not util.is_true(switch.get("enabled")):  # as stages.Init._consume_vendordata
        vendor, vendor_scripts = {}, {}
    return {
        "config": json.loads(json.dumps(util.mergemanydict([user, vendor]), default=str)),
        "userScripts": user_scripts,
        "vendorScripts": vendor_scripts,
    }


asked = json.load(sys.stdin)
json.dump(
    {
        "pairs": [judge_pair(p) for p in asked.get("pairs") or []],
        "kinds": [judge_kind(k) for k in asked.get("kinds") or []],
        "loads": [judge_load(t) for t in asked.get("loads") or []],
        "merges": [judge_merge(m) for m in asked.get("merges") or []],
    },
    sys.stdout,
)
