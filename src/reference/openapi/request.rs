//! One request of an operation: parameters in their places, the body in its kind.

use reqwest::Url;
use serde_json::{Map, Value};

use crate::action::fetch::Content;
use crate::llm::Secret;

use super::document::{Operation, Parameter, Place};
use super::multipart;

/// What is sent, before the author's headers.
#[derive(Debug)]
pub struct Wire {
    /// Where to.
    pub(crate) url: Url,
    /// Headers that parameters make.
    pub(crate) headers: Vec<(String, Secret)>,
    /// What is sent.
    pub(crate) content: Content,
}

/// The request of an operation at a server, with arguments that were validated.
///
/// # Errors
/// What cannot be sent, for a model.
pub fn wire(
    operation: &Operation,
    server: &Url,
    parameters: &Map<String, Value>,
    body: Option<&Value>,
) -> Result<Wire, String> {
    let given = |parameter: &Parameter| parameters.get(&parameter.key).filter(|value| !value.is_null());
    let mut path = operation.path.clone();
    let (mut query, mut headers, mut cookies) = (Vec::new(), Vec::new(), Vec::new());
    for parameter in &operation.parameters {
        let Some(value) = given(parameter) else { continue };
        match parameter.place {
            Place::Path => {
                let text = simple(value, parameter.explode);
                // A name of only dots would lead to another path.
                if text.is_empty() || text.chars().all(|c| c == '.') {
                    return Err(format!("`{}` is `{text}`, which no part of a path can be", parameter.key));
                }
                path = path.replace(&format!("{{{}}}", parameter.name), &encoded(&text));
            }
            Place::Query => pairs(parameter, value, &mut query),
            Place::Header => {
                headers.push((parameter.name.to_ascii_lowercase(), Secret::new(simple(value, parameter.explode))))
            }
            Place::Cookie => cookies.push(format!("{}={}", parameter.name, encoded(&simple(value, parameter.explode)))),
        }
    }
    if !cookies.is_empty() {
        headers.push(("cookie".to_owned(), Secret::new(cookies.join("; "))));
    }
    let whole = format!("{}{path}", server.as_str().trim_end_matches('/'));
    let mut url = Url::parse(&whole).map_err(|why| format!("`{whole}` is no URL: {why}"))?;
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    Ok(Wire { url, headers, content: content(operation, body)? })
}

fn content(operation: &Operation, body: Option<&Value>) -> Result<Content, String> {
    let (Some(sent), Some(body)) = (&operation.body, body.filter(|body| !body.is_null())) else {
        return Ok(Content::Nothing);
    };
    let kind = sent.kind.split(';').next().unwrap_or_default().trim();
    match (kind, body) {
        _ if kind == "application/json" || kind.ends_with("+json") => Ok(Content::Json(body.clone())),
        ("application/x-www-form-urlencoded", Value::Object(members)) => {
            Ok(Content::Form(members.iter().map(|(name, value)| (name.clone(), text(value))).collect()))
        }
        ("multipart/form-data", Value::Object(members)) => {
            multipart::body(members, &sent.parts).map(|(kind, bytes)| Content::Bytes(kind, bytes))
        }
        (_, Value::String(text)) if kind.starts_with("text/") => Ok(Content::Text(text.clone())),
        _ => Err(format!("the operation takes a body of `{kind}`; JSON, forms and texts can be sent")),
    }
}

/// A value of the query: `form` and `deepObject`.
fn pairs(parameter: &Parameter, value: &Value, out: &mut Vec<(String, String)>) {
    let name = &parameter.name;
    let separator = match parameter.style.as_str() {
        "spaceDelimited" => " ",
        "pipeDelimited" => "|",
        _ => ",",
    };
    match value {
        Value::Array(items) if parameter.explode => out.extend(items.iter().map(|item| (name.clone(), text(item)))),
        Value::Array(items) => out.push((name.clone(), items.iter().map(text).collect::<Vec<_>>().join(separator))),
        Value::Object(members) if parameter.style == "deepObject" => {
            out.extend(members.iter().map(|(key, value)| (format!("{name}[{key}]"), text(value))));
        }
        Value::Object(members) if parameter.explode => {
            out.extend(members.iter().map(|(key, value)| (key.clone(), text(value))));
        }
        value => out.push((name.clone(), simple(value, false))),
    }
}

/// The style `simple`: `a,b` and `k,v` or `k=v`.
fn simple(value: &Value, explode: bool) -> String {
    match value {
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Object(members) => {
            let between = if explode { "=" } else { "," };
            let pairs = members.iter().map(|(key, value)| format!("{key}{between}{}", text(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
        value => text(value),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text as part of a path or cookie.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::Api;
    use super::*;

    fn url(id: &str, parameters: Value) -> Result<String, String> {
        let api = Api::read("pets.yaml", include_str!("../../../tests/samples/openapi/pets.yaml")).expect("sound");
        let server = Url::parse(api.server.as_deref().expect("a server")).expect("a URL");
        let parameters = parameters.as_object().cloned().unwrap_or_default();
        wire(&api.operations[id], &server, &parameters, None).map(|wire| wire.url.to_string())
    }

    #[test]
    fn parameters_stand_in_their_places() {
        let listed = url("listPets", json!({"kind": ["cat", "dog"], "limit": 5, "filter": {"name": "Tom & Co"}}));
        let whole = "http://pets.example/v1/pets?kind=cat&kind=dog&limit=5&filter%5Bname%5D=Tom+%26+Co";
        assert_eq!(listed.as_deref(), Ok(whole));
        assert_eq!(url("getPet", json!({"id": "a b/c?d"})).as_deref(), Ok("http://pets.example/v1/pets/a%20b%2Fc%3Fd"));
    }

    #[test]
    fn a_part_of_a_path_leads_nowhere_else() {
        for id in ["..", ".", ""] {
            assert!(url("getPet", json!({"id": id})).is_err(), "{id:?}");
        }
        let fine = url("getPet", json!({"id": "../../admin"})).expect("it stays a part of the path");
        assert_eq!(fine, "http://pets.example/v1/pets/..%2F..%2Fadmin");
    }
}
