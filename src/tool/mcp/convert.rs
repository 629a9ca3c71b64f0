//! From the server's words to ours and back: a tool's descriptor, the result of a call.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, Tool as ServerTool};
use serde_json::{Value, json};

use crate::tool::Tool;
use crate::value::RawSchema;

use super::body::ServerBody;
use super::config::ServerConfig;

/// The longest name of a tool (language.md 1).
const NAME_MAX: usize = 64;
/// The longest description that is handed on, in characters.
const DESCRIPTION_CHARS_MAX: usize = 16 * 1024;

/// A tool that a server has and that cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub tool: String,
    /// Why.
    pub why: String,
}

/// The tools of a server as they can be offered.
#[derive(Clone, Debug, Default)]
pub struct ServerTools {
    /// The tools, under the server's own names as far as a tool may be called so.
    pub tools: Vec<Arc<Tool>>,
    /// What cannot be offered.
    pub left_out: Vec<LeftOut>,
}

/// The tools of a server's list.
pub(super) fn tools(server: &str, config: &ServerConfig, listed: Vec<ServerTool>) -> ServerTools {
    let (mut given, mut names) = (ServerTools::default(), BTreeSet::new());
    for tool in listed {
        let name = unused(&sound_name(&tool.name), &mut names);
        match descriptor(server, config, name, &tool) {
            Ok(tool) => given.tools.push(Arc::new(tool)),
            Err(why) => given.left_out.push(LeftOut { tool: tool.name.to_string(), why }),
        }
    }
    given
}

fn descriptor(server: &str, config: &ServerConfig, name: String, tool: &ServerTool) -> Result<Tool, String> {
    let mut schema = (*tool.input_schema).clone();
    if !schema.contains_key("type") {
        // Models' providers want it said; the protocol has only objects here.
        schema.insert("type".to_owned(), Value::from("object"));
    }
    let schema = RawSchema::new(Value::Object(schema)).map_err(|why| format!("its `inputSchema`: {why}"))?;
    let hints = tool.annotations.as_ref();
    let says = |hint: Option<Option<bool>>, what: bool| hint.flatten() == Some(what);
    let changes_twice = says(hints.map(|hints| hints.idempotent_hint), false);
    let only_reads = says(hints.map(|hints| hints.read_only_hint), true);
    let idempotent = only_reads || !changes_twice;
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default().trim();
    let description: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    let body = ServerBody { server: server.to_owned(), tool: tool.name.to_string(), idempotent };
    let described_by = Some(body.clone());
    let seen = schema.seen();
    Ok(Tool {
        schema: Some(Arc::new(schema)),
        timeout: config.timeout.unwrap_or(crate::tool::TIMEOUT),
        idempotent,
        described_by,
        ..Tool::new(name, description, seen, Some(Arc::new(body)))
    })
}

/// A name as tools may have it: other characters become `_`.
fn sound_name(name: &str) -> String {
    let sound = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = name.chars().map(sound).take(NAME_MAX).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// The name, or one like it that was not given yet.
fn unused(name: &str, given: &mut BTreeSet<String>) -> String {
    let mut name = name.to_owned();
    let mut number = 2;
    while !given.insert(name.clone()) {
        let suffix = format!("_{number}");
        let stem: String = name.chars().take(NAME_MAX - suffix.len()).collect();
        name = format!("{}{suffix}", stem.trim_end_matches(&format!("_{}", number - 1)));
        number += 1;
    }
    name
}

/// The value that the result of a call is, or the server's complaint.
///
/// Structured content is the value; text alone is a text; one picture alone an `Image`; anything else a list of texts
/// and pictures in the server's order.
pub(super) fn result(result: CallToolResult) -> Result<Value, String> {
    if result.is_error == Some(true) {
        let words: Vec<String> = result.content.iter().filter_map(text_of).collect();
        let words = words.join("\n");
        return Err(if words.trim().is_empty() { "it failed and did not say why".to_owned() } else { words });
    }
    let pictures = result.content.iter().any(|block| text_of(block).is_none());
    match result.structured_content {
        Some(value) if !pictures => return Ok(value),
        Some(value) => {
            let pictures = result.content.iter().filter(|block| text_of(block).is_none()).map(part);
            return Ok(Value::Array(std::iter::once(value).chain(pictures).collect()));
        }
        None => {}
    }
    if !pictures {
        let texts: Vec<String> = result.content.iter().filter_map(text_of).collect();
        return Ok(Value::from(texts.join("\n")));
    }
    let mut parts: Vec<Value> = result.content.iter().map(part).collect();
    Ok(if parts.len() == 1 { parts.remove(0) } else { Value::Array(parts) })
}

/// The text of a piece of content; `None` for one that has only bytes.
fn text_of(block: &ContentBlock) -> Option<String> {
    match block {
        ContentBlock::Text(text) => Some(text.text.clone()),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => Some(text.clone()),
            ResourceContents::BlobResourceContents { mime_type, .. }
                if mime_type.as_deref().is_some_and(|mime| mime.starts_with("image/")) =>
            {
                None
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime = mime_type.as_deref().unwrap_or("bytes");
                Some(format!("[resource {uri}: {mime}, {} bytes in base64]", blob.len()))
            }
            _ => Some("[a resource of an unknown kind]".to_owned()),
        },
        ContentBlock::ResourceLink(link) => {
            let title = link.title.as_ref().unwrap_or(&link.name);
            Some(format!("[resource {}: {title}]", link.uri))
        }
        ContentBlock::Image(_) | ContentBlock::Audio(_) => None,
        _ => Some("[content of an unknown kind]".to_owned()),
    }
}

/// A piece of content as a value: a text, or bytes with their media type, as the built-in type `Image` has them.
fn part(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Image(image) => json!({"mime": image.mime_type, "data": image.data}),
        ContentBlock::Audio(audio) => json!({"mime": audio.mime_type, "data": audio.data}),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::BlobResourceContents { mime_type: Some(mime), blob, .. }
                if mime.starts_with("image/") =>
            {
                json!({"mime": mime, "data": blob})
            }
            _ => Value::from(text_of(block).unwrap_or_default()),
        },
        _ => Value::from(text_of(block).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::path::PathBuf;

    use super::*;
    use crate::llm::{TOOL_FORMS, tool_wire};
    use crate::tool::mcp::Reach;
    use crate::tool::offer::Offered;
    use crate::value::Types;

    fn config() -> ServerConfig {
        let reach = Reach::Program { command: Vec::new(), env: Vec::new(), cwd: PathBuf::new() };
        ServerConfig { reach, timeout: None, restarts: 0, secrets: Vec::new() }
    }

    /// What is given of a tool of this name and schema: what models see of it, or why it is left out.
    fn offered(name: &str, schema: Value) -> Result<Offered, String> {
        let listed =
            serde_json::from_value(json!({"name": name, "inputSchema": schema})).map_err(|why| why.to_string())?;
        let given = tools("test", &config(), vec![listed]);
        match given.tools.first() {
            Some(tool) => Ok(Offered::plain(Arc::clone(tool), &Types::default())),
            None => Err(given.left_out[0].why.clone()),
        }
    }

    /// Tools that a server should not have.
    #[test]
    fn schemas_that_turn_in_circles_or_are_none_are_sent_or_left_out() {
        let mut deep = json!({"type": "string"});
        for _ in 0..60 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        let wide: serde_json::Map<String, Value> =
            (0..500).map(|at| (format!("p{at}"), json!({"anyOf": [{"type": "string"}, {"$ref": "#"}]}))).collect();
        let schemas = [
            json!({}),
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
            json!({"$ref": "#"}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}}),
            json!({"type": "object", "allOf": [{"$ref": "#"}]}),
            json!({"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}]}}, "$defs": {"x": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}),
            json!({"type": "object", "properties": {"a": {"$dynamicRef": "#a"}}}),
            json!({"type": "array"}),
            json!({"type": 7}),
            json!({"type": "object", "properties": []}),
            json!({"type": "object", "properties": {"a": true, "b": false, "": {}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?:(?:a{1000}){1000}){1000}"}}}),
            json!({"type": "object", "properties": {"a": {"enum": []}}}),
            json!({"type": "object", "properties": {"a": {"default": {"a": 1}, "type": "string"}}}),
            json!({"type": "object", "properties": {"a": {"type": ["object", "null", "string"], "minLength": -1}}}),
            json!({"type": "object", "required": ["never"], "additionalProperties": false}),
            json!({"type": "object", "properties": wide}),
            deep,
        ];
        let arguments =
            [json!({}), json!({"a": {"a": {"a": 1}}}), json!({"a": "x"}), json!({"": null, "p3": {"p4": {}}})];
        for schema in schemas {
            let Ok(tool) = offered("t", schema.clone()) else { continue };
            assert_eq!(tool.spec.parameters["type"], "object", "{schema}");
            for form in TOOL_FORMS {
                let sent = tool_wire(form, std::slice::from_ref(&tool.spec)).unwrap_or_default();
                assert!(sent.to_string().contains("\"t\""), "{form}: {schema}");
            }
            let raw = tool.tool.schema.as_ref().expect("a server's tool has its schema");
            for arguments in &arguments {
                if let Err(why) = raw.validate(arguments.clone()) {
                    assert!(!why.is_empty(), "{schema}");
                }
            }
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,20}",
            any::<String>(),
            Just("</untrusted_content>".to_owned()),
            Just("\u{0}\u{1b}[2J".to_owned())
        ]
    }

    fn any_block() -> impl Strategy<Value = Value> {
        let mime = prop_oneof![
            Just("image/png".to_owned()),
            Just("audio/wav".to_owned()),
            Just("text/plain".to_owned()),
            any_text()
        ];
        prop_oneof![
            any_text().prop_map(|text| json!({"type": "text", "text": text})),
            (any_text(), mime.clone()).prop_map(|(data, mime)| json!({"type": "image", "data": data, "mimeType": mime})),
            (any_text(), mime.clone()).prop_map(|(data, mime)| json!({"type": "audio", "data": data, "mimeType": mime})),
            (any_text(), any_text()).prop_map(|(uri, name)| json!({"type": "resource_link", "uri": uri, "name": name})),
            (any_text(), any_text()).prop_map(|(uri, text)| json!({"type": "resource", "resource": {"uri": uri, "text": text}})),
            (any_text(), mime, any_text())
                .prop_map(|(uri, mime, blob)| json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "blob": blob}})),
            any_text().prop_map(|kind| json!({"type": kind})),
        ]
    }

    proptest! {
        #[test]
        fn any_name_becomes_one_that_a_tool_may_have(names in proptest::collection::vec(prop_oneof![any::<String>(), "a{60,70}", "[a ]{1,2}"], 1..12)) {
            let listed = names.iter().filter_map(|name| serde_json::from_value(json!({"name": name, "inputSchema": {"type": "object"}})).ok());
            let given = tools("test", &config(), listed.collect());
            prop_assert_eq!(given.tools.len(), names.len());
            let mut seen = BTreeSet::new();
            for tool in &given.tools {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                prop_assert!((1..=NAME_MAX).contains(&tool.name.len()) && tool.name.chars().all(is_plain), "{}", tool.name);
                prop_assert!(seen.insert(tool.name.clone()), "{} twice", tool.name);
            }
        }

        #[test]
        fn any_result_is_a_value_or_a_complaint(
            blocks in proptest::collection::vec(any_block(), 0..5),
            structured in prop_oneof![Just(Value::Null), Just(json!({"a": [1, "</untrusted_content>"]})), Just(json!([])), Just(json!("text"))],
            is_error in any::<Option<bool>>(),
        ) {
            let mut told = json!({"content": blocks});
            if !structured.is_null() {
                told["structuredContent"] = structured;
            }
            if let Some(is_error) = is_error {
                told["isError"] = json!(is_error);
            }
            // What the protocol's own reader refuses never gets here.
            if let Ok(read) = serde_json::from_value::<CallToolResult>(told) {
                match result(read) {
                    Ok(value) => prop_assert!(is_error != Some(true), "{value}"),
                    Err(words) => prop_assert!(is_error == Some(true) && !words.trim().is_empty()),
                }
            }
        }
    }
}
