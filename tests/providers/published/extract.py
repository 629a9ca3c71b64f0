"""Makes the schemas beside this file from what the providers publish. README.md says what is taken from where.

    python3 -m venv /tmp/sdks && /tmp/sdks/bin/pip install -r requirements.txt && /tmp/sdks/bin/python extract.py
"""

import collections.abc as abc
import datetime
import enum
import gzip
import importlib
import importlib.metadata
import inspect
import json
import pathlib
import re
import types
import typing

import typing_extensions as te
from pydantic import BaseModel

HERE = pathlib.Path(__file__).parent
BASE64 = {"type": "string", "pattern": "^[A-Za-z0-9+/_-]*={0,2}$"}


def write(wire, packages, roots, defs, changed=()):
    """Writes a file: what can be reached from `roots`, one definition a line."""
    reached, queue = set(), list(roots.values())
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue += re.findall(r'"#/\$defs/([^"]+)"', json.dumps(defs[name]))
    sources = [f"{package} {importlib.metadata.version(package)}" for package in packages]
    head = {"from": sources, "changed": list(changed), "roots": roots}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = [f"  {json.dumps(name)}: {json.dumps(defs[name], ensure_ascii=False)}" for name in sorted(reached)]
    text = "{\n" + "\n".join(lines) + '\n"$defs": {\n' + ",\n".join(body) + "\n}}\n"
    json.loads(text)
    (HERE / f"{wire}.json").write_text(text)
    print(f"{wire}: {len(reached)} definitions, {len(text)} bytes")


class Python:
    """Types of an SDK in Python (TypedDicts for what is sent, models for what comes) as JSON Schema."""

    def __init__(self, keep=None, replaced=None):
        """`keep`: the tags (`type`, `role`) whose members of unions are kept; of other unions all are. `replaced`: types
        whose schema is given here."""
        self.defs, self.names, self.keep, self.replaced = {}, {}, keep, replaced or {}

    def root(self, path):
        module, name = path.rsplit(".", 1)
        return self.schema(getattr(importlib.import_module(module), name))["$ref"].removeprefix("#/$defs/")

    def schema(self, kind):
        origin, args = te.get_origin(kind), te.get_args(kind)
        if kind in (typing.Any, object):
            return {}
        if kind in (None, type(None)):
            return {"type": "null"}
        if kind in (str, bytes):
            return {"type": "string"}
        if kind in (bool, int, float):
            return {"type": {bool: "boolean", int: "integer", float: "number"}[kind]}
        if kind is datetime.datetime:
            return {"type": "string", "format": "date-time"}
        if origin in (te.Annotated, te.Required, te.NotRequired):
            return self.schema(args[0])
        if origin is te.Literal:
            return {"enum": list(args)}
        if origin in (typing.Union, types.UnionType):
            return self.union(args)
        if origin in (dict, abc.Mapping):
            return {"type": "object", "additionalProperties": self.schema(args[1])}
        if origin in (list, abc.Iterable, abc.Sequence):
            return {"type": "array", "items": self.schema(args[0])}
        if inspect.isclass(kind) and (te.is_typeddict(kind) or issubclass(kind, BaseModel)):
            return {"$ref": f"#/$defs/{self.define(kind)}"}
        if kind in (dict, abc.Mapping):
            return {"type": "object"}
        raise TypeError(f"no schema for {kind!r}")

    def union(self, args):
        # An open file is sent as text.
        args = [arg for arg in args if not re.search(r"PathLike|typing\.IO|io\.", repr(arg))]
        branches = []
        for arg in args:
            if self.keep is not None and self.tags(arg) and not self.tags(arg) & self.keep:
                continue
            branch = self.schema(arg)
            for one in branch.get("anyOf", [branch]):
                if one not in branches:
                    branches.append(one)
        if {"type": "string"} in branches:
            branches = [one for one in branches if not all(isinstance(value, str) for value in one.get("enum", [0]))]
        if not branches:
            return {"not": {}}
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    def tags(self, kind):
        """The fixed words of a member of a union under `type` or `role`."""
        while te.get_origin(kind) is te.Annotated:
            kind = te.get_args(kind)[0]
        if not inspect.isclass(kind):
            return set()
        tags = set()
        for key, _, field in self.members(kind):
            words = self.schema(field).get("enum", []) if key in ("type", "role") else []
            tags |= set(words)
        return tags

    def members(self, kind):
        """(name on the wire, required, type) of each member."""
        if te.is_typeddict(kind):
            for key, field in te.get_type_hints(kind, include_extras=True).items():
                required = te.get_origin(field) is te.Required
                if key in self.own(kind) and kind.__total__:
                    required = te.get_origin(field) is not te.NotRequired
                if te.get_origin(field) in (te.Required, te.NotRequired):
                    field = te.get_args(field)[0]
                notes = te.get_args(field)[1:] if te.get_origin(field) is te.Annotated else ()
                alias = next((note.alias for note in notes if getattr(note, "alias", None)), key)
                yield alias, required, field
        elif issubclass(kind, BaseModel):
            for key, field in kind.model_fields.items():
                yield field.alias or key, field.is_required(), field.annotation

    @staticmethod
    def own(kind):
        """The keys that a TypedDict does not have from another."""
        others = [base for base in getattr(kind, "__orig_bases__", ()) if te.is_typeddict(base)]
        return set(kind.__annotations__) - {key for base in others for key in base.__annotations__}

    def define(self, kind):
        if kind in self.names:
            return self.names[kind]
        name = kind.__qualname__
        if name in self.defs:
            name = f"{kind.__module__.rsplit('.', 1)[-1]}.{name}"
        self.names[kind], self.defs[name] = name, None
        if kind.__qualname__ in self.replaced:
            self.defs[name] = self.replaced[kind.__qualname__]
            return name
        properties, required = {}, []
        for key, needed, field in self.members(kind):
            properties[key] = self.schema(field)
            if needed:
                required.append(key)
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        # Anthropic marks schemas of tools, which are open.
        if getattr(kind, "__pydantic_config__", {}).get("extra") == "allow":
            schema["additionalProperties"] = True
        if required:
            schema["required"] = required
        self.defs[name] = schema
        return name


OPENAI_TAGS = {
    "system", "user", "assistant", "tool", "message", "text", "image_url", "function", "json_schema", "refusal",
    "input_text", "input_image", "output_text", "function_call", "function_call_output", "reasoning", "summary_text",
    "reasoning_text", "error", "response.created", "response.in_progress", "response.completed", "response.incomplete",
    "response.failed", "response.output_item.added", "response.output_item.done", "response.content_part.added",
    "response.content_part.done", "response.output_text.delta", "response.output_text.done", "response.refusal.delta",
    "response.refusal.done", "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
    "response.function_call_arguments.delta", "response.function_call_arguments.done",
}


def openai():
    chat = Python(OPENAI_TAGS)
    roots = {
        "request": chat.root("openai.types.chat.completion_create_params.CompletionCreateParamsNonStreaming"),
        "request, streamed": chat.root("openai.types.chat.completion_create_params.CompletionCreateParamsStreaming"),
        "reply": chat.root("openai.types.chat.ChatCompletion"),
        "event": chat.root("openai.types.chat.ChatCompletionChunk"),
        "embed request": chat.root("openai.types.EmbeddingCreateParams"),
        "embed reply": chat.root("openai.types.CreateEmbeddingResponse"),
    }
    write("openai", ["openai"], roots, chat.defs, ["members of unions that have nothing to do with us are left out"])
    responses = Python(OPENAI_TAGS)
    module = importlib.import_module("openai.types.responses")
    events = responses.schema(module.ResponseStreamEvent)
    responses.defs["ResponseStreamEvent"] = events
    roots = {
        "request": responses.root("openai.types.responses.response_create_params.ResponseCreateParamsNonStreaming"),
        "request, streamed": responses.root("openai.types.responses.response_create_params.ResponseCreateParamsStreaming"),
        "reply": responses.root("openai.types.responses.Response"),
        "event": "ResponseStreamEvent",
    }
    write("responses", ["openai"], roots, responses.defs, ["members of unions that have nothing to do with us are left out"])


ANTHROPIC_TAGS = {
    "user", "assistant", "message", "text", "image", "base64", "url", "tool_use", "tool_result", "thinking", "custom",
    "redacted_thinking", "ephemeral", "json_schema", "enabled", "disabled", "adaptive", "auto", "any", "tool", "none",
    "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta", "content_block_stop",
    "text_delta", "input_json_delta", "thinking_delta", "signature_delta",
}


def anthropic():
    made = Python(ANTHROPIC_TAGS)
    made.defs["RawMessageStreamEvent"] = made.schema(importlib.import_module("anthropic.types").RawMessageStreamEvent)
    roots = {
        "request": made.root("anthropic.types.message_create_params.MessageCreateParamsNonStreaming"),
        "request, streamed": made.root("anthropic.types.message_create_params.MessageCreateParamsStreaming"),
        "reply": made.root("anthropic.types.Message"),
        "event": "RawMessageStreamEvent",
    }
    write("anthropic", ["anthropic"], roots, made.defs, ["members of unions that have nothing to do with us are left out"])


def ollama():
    class Ollama(Python):
        def union(self, args):
            # A mapping stands beside each model for convenience.
            return super().union([arg for arg in args if te.get_origin(arg) is not abc.Mapping])

    made = Ollama(replaced={"Image": BASE64, "Tool.Function.Parameters": {"type": "object"}})
    roots = {
        "request": made.root("ollama._types.ChatRequest"),
        "reply": made.root("ollama._types.ChatResponse"),
        "embed request": made.root("ollama._types.EmbedRequest"),
        "embed reply": made.root("ollama._types.EmbedResponse"),
    }
    roots["event"] = roots["reply"]
    changed = ["a tool's parameters are any object: the type has only some of JSON Schema's words"]
    write("ollama", ["ollama"], roots, made.defs, changed)


def bedrock():
    folder = pathlib.Path(importlib.import_module("botocore").__file__).parent / "data/bedrock-runtime"
    file = sorted(folder.glob("*/service-2.json.gz"))[-1]
    model = json.loads(gzip.open(file).read())
    defs = {}

    def schema(name):
        shape = model["shapes"][name]
        kind = shape["type"]
        if shape.get("document"):
            return {}
        if kind in ("string", "integer", "long", "float", "double", "boolean"):
            out = {"type": {"long": "integer", "float": "number", "double": "number"}.get(kind, kind)}
            limits = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
            out |= {limit: shape[key] for key, limit in zip(("min", "max"), limits) if key in shape}
            if "pattern" in shape:
                out["pattern"] = f"^(?:{shape['pattern']})$"
            return {"enum": shape["enum"]} if "enum" in shape else out
        if kind == "blob":
            return BASE64
        if kind == "timestamp":
            return {"type": ["string", "number"]}
        if kind == "list":
            limits = {limit: shape[key] for key, limit in (("min", "minItems"), ("max", "maxItems")) if key in shape}
            return {"type": "array", "items": schema(shape["member"]["shape"]), **limits}
        if kind == "map":
            return {"type": "object", "additionalProperties": schema(shape["value"]["shape"])}
        if name not in defs:
            defs[name] = None
            # What stands in the address or a header is not in the body.
            members = {key: member for key, member in shape["members"].items() if "location" not in member}
            out = {"type": "object", "properties": {key: schema(member["shape"]) for key, member in members.items()}}
            out["additionalProperties"] = False
            if required := [key for key in shape.get("required", []) if key in members]:
                out["required"] = required
            if shape.get("union"):
                out |= {"minProperties": 1, "maxProperties": 1}
            defs[name] = out
        return {"$ref": f"#/$defs/{name}"}

    def reduced(name, without):
        for key in without:
            defs[name]["properties"].pop(key)

    roots = {"request": "ConverseRequest", "request, streamed": "ConverseStreamRequest", "reply": "ConverseResponse", "event": "ConverseStreamOutput"}
    for root in roots.values():
        schema(root)
    reduced("ContentBlock", ["document", "video", "audio", "guardContent", "citationsContent", "searchResult"])
    reduced("ToolResultContentBlock", ["document", "video", "searchResult"])
    reduced("ConverseRequest", ["guardrailConfig"])
    reduced("ConverseStreamRequest", ["guardrailConfig"])
    for name in ("ConverseTrace", "ConverseStreamTrace"):
        defs[name] = {"type": "object"}
    changed = ["documents, video, sound, guardrails, citations and traces are left out"]
    write("bedrock", ["botocore"], roots, defs, changed)


def gemini():
    language = importlib.import_module("google.ai.generativelanguage_v1beta")
    newer = importlib.import_module("google.genai.types")
    defs = {}
    # These stand in the address.
    path = {"GenerateContentRequest": {"model"}, "BatchEmbedContentsRequest": {"model"}}
    left_out = re.compile("Grounding|Citation|Logprobs|UrlContext|CodeExecution|ExecutableCode|Speech|Voice|Video|Image|ComputerUse|FileSearch|GoogleSearch|GoogleMaps|McpServer|UrlContext|Retrieval")

    def field(one):
        word = {1: "number", 2: "number", 5: "integer", 13: "integer", 8: "boolean", 9: "string"}.get(one.type)
        if word:
            return {"type": word}
        if one.type in (3, 4):
            return {"type": ["integer", "string"]}
        if one.type == 12:
            return BASE64
        if one.type == 14:
            return {"enum": [value.name for value in one.enum_type.values]}
        well_known = {"Struct": {"type": "object"}, "Value": {}, "ListValue": {"type": "array"}, "Duration": {"type": "string"}, "Timestamp": {"type": "string"}, "Interval": {"type": "object"}}
        if one.message_type.file.package.startswith("google.") and one.message_type.name in well_known:
            return well_known[one.message_type.name]
        return {"$ref": f"#/$defs/{define(one.message_type)}"}

    def define(message):
        name = message.full_name.split(".v1beta.")[1]
        if name in defs:
            return name
        defs[name] = None
        owner = language
        for part in name.split("."):
            owner = getattr(owner, part)
        words = dict(re.findall(r"^ {8}(\w+) \([^()]*\):\n\s+(Required)\b", owner.__doc__ or "", re.M))
        properties, required, choices = {}, [], {}
        for one in message.fields:
            kind = one.message_type.name if one.message_type else ""
            if one.name in path.get(name, ()) or left_out.search(kind):
                continue
            if one.message_type and one.message_type.GetOptions().map_entry:
                schema = {"type": "object", "additionalProperties": field(one.message_type.fields_by_name["value"])}
            elif one.is_repeated:
                schema = {"type": "array", "items": field(one)}
            else:
                schema = field(one)
            properties[one.json_name] = schema
            # A field whose name is a word of Python has a stroke after it.
            if "Required" in (words.get(one.name), words.get(one.name + "_")):
                required.append(one.json_name)
            if one.containing_oneof and not one.containing_oneof.name.startswith("_"):
                choices.setdefault(one.containing_oneof.name, []).append(one.json_name)
        out = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            out["required"] = required
        pairs = [[a, b] for group in choices.values() for at, a in enumerate(group) for b in group[at + 1 :]]
        if pairs:
            out["allOf"] = [{"not": {"required": pair}} for pair in pairs]
        defs[name] = out
        return name

    def root(name):
        kind = getattr(language, name)
        return define(kind.pb(kind()).DESCRIPTOR)

    roots = {"request": root("GenerateContentRequest"), "reply": root("GenerateContentResponse"), "embed request": root("BatchEmbedContentsRequest"), "embed reply": root("BatchEmbedContentsResponse")}
    roots["event"] = roots["reply"]
    # What the newer SDK has and the other not yet.
    levels = [level.value for level in newer.ThinkingLevel if isinstance(level, enum.Enum)]
    assert "thinking_level" in newer.ThinkingConfig.model_fields
    defs["ThinkingConfig"]["properties"].setdefault("thinkingLevel", {"enum": levels})
    # google-genai says so, and sends `anyOf` without a type.
    defs["Schema"].pop("required")
    defs["Schema"]["anyOf"] = [{"required": ["type"]}, {"required": ["anyOf"]}]
    changed = ["`thinkingLevel` is google-genai's", "beside `anyOf` no `type` is demanded, as in google-genai", "search, maps, code, speech, video, picture making and citations are left out"]
    write("gemini", ["google-ai-generativelanguage", "google-genai"], roots, defs, changed)


openai()
anthropic()
gemini()
bedrock()
ollama()
