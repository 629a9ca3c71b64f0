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
    let seen = schema.seen();
    Ok(Tool {
        schema: Some(Arc::new(schema)),
        timeout: config.timeout.unwrap_or(crate::tool::TIMEOUT),
        idempotent,
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
