//! A small MCP server over standard input and output that misbehaves as real ones do. It is this very test binary,
//! started again: see [`command`].
#![allow(clippy::exit, clippy::print_stderr, reason = "it is a program of its own")]

use std::io::{BufRead, Write};
use std::path::Path;

use serde_json::{Value, json};

/// The variable that makes the test below a server; its value is how it behaves.
pub(crate) const BEHAVIOUR: &str = "MCP_TEST_SERVER";

/// The command that starts the server, as `command` of the project file wants it.
pub(crate) fn command() -> Vec<String> {
    let program = std::env::current_exe().expect("the test binary has a path");
    let arguments = ["--exact", "support::mcp_server::serves_when_it_is_told_to", "--nocapture", "--quiet"];
    let program = program.to_str().expect("its path is text").to_owned();
    std::iter::once(program).chain(arguments.map(str::to_owned)).collect()
}

/// The entry of `mcp_servers` for the server, in YAML: its behaviour and further keys.
pub(crate) fn entry(behaviour: &str, more: &str) -> String {
    let command = serde_json::to_string(&command()).expect("texts are JSON");
    format!("{{command: {command}, env: {{{BEHAVIOUR}: '{behaviour}'}}{more}}}")
}

#[test]
fn serves_when_it_is_told_to() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    match behaviour.as_str() {
        "broken" => {
            eprintln!("reading the configuration\nno key is set; give TOKEN");
            std::process::exit(3);
        }
        "refuses" => {
            answer(|_, id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "not for you"}}));
        }
        "mute" => {
            eprintln!("waiting for the database");
            answer(|_, _| Value::Null);
        }
        _ => {
            eprintln!("ready");
            // Real servers do this: what is no message must not matter.
            say(&Value::from("this is no message"));
            let mut server = Server { behaviour, has_grown: false, waiting: None };
            answer(move |request, id| server.reply(request, id));
        }
    }
    std::process::exit(0);
}

/// Answers every line until the input ends; what has no answer gives null.
fn answer(mut reply: impl FnMut(&Value, &Value) -> Value) {
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line.expect("lines are text")) else { continue };
        let answer = reply(&request, &request["id"]);
        if !answer.is_null() {
            say(&answer);
        }
    }
}

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").and_then(|()| out.flush()).expect("the client reads");
}

struct Server {
    behaviour: String,
    /// Whether it has a tool more than at first.
    has_grown: bool,
    /// The file that is written when the call that hangs is cancelled.
    waiting: Option<String>,
}

impl Server {
    fn reply(&mut self, request: &Value, id: &Value) -> Value {
        let result = match request["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "test", "version": "1"}
            }),
            "tools/list" => self.list(&request["params"]["cursor"]),
            "tools/call" => match self.call(&request["params"]) {
                Some(result) => result,
                None => return Value::Null,
            },
            "notifications/cancelled" => {
                if let Some(file) = self.waiting.take() {
                    std::fs::write(file, "cancelled").expect("the file is written");
                }
                return Value::Null;
            }
            _ if id.is_null() => return Value::Null,
            method => {
                let error = json!({"code": -32601, "message": format!("there is no {method}")});
                return json!({"jsonrpc": "2.0", "id": id, "error": error});
            }
        };
        // As the official SDK has it: the result first and the id last.
        json!({"result": result, "jsonrpc": "2.0", "id": id})
    }

    fn list(&self, cursor: &Value) -> Value {
        let tool = |name: &str, schema: Value| json!({"name": name, "description": name, "inputSchema": schema});
        if self.behaviour == "odd" {
            return json!({"tools": [
                tool("no.schema", json!(7)),
                tool("wrong", json!({"type": "objekt"})),
                tool("dots.and/slashes", json!({})),
                tool("dots_and_slashes", json!({"type": "object"})),
            ]});
        }
        if self.behaviour == "endless" {
            return json!({"tools": [], "nextCursor": "again"});
        }
        if cursor.is_null() {
            let echo = json!({"type": "object", "properties": {"text": {"type": "string", "minLength": 1}},
                "required": ["text"], "additionalProperties": false});
            return json!({"tools": [tool("echo", echo)], "nextCursor": "more"});
        }
        let mut tools = vec![tool("fail", json!({"type": "object"}))];
        if self.has_grown {
            tools.push(tool("grown", json!({"type": "object"})));
        }
        json!({"tools": tools})
    }

    fn call(&mut self, params: &Value) -> Option<Value> {
        let arguments = &params["arguments"];
        let text = |text: String| Some(json!({"content": [{"type": "text", "text": text}]}));
        match params["name"].as_str().unwrap_or_default() {
            "echo" => text(arguments["text"].as_str().unwrap_or_default().to_owned()),
            "environment" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                text(names.join(" "))
            }
            "variable" => text(std::env::var(arguments["name"].as_str().unwrap_or_default()).unwrap_or_default()),
            "fail" => Some(json!({"isError": true, "content": [{"type": "text", "text": "the shelf is empty"}]})),
            "structured" => Some(json!({"structuredContent": {"n": 1}, "content": [{"type": "text", "text": "{}"}]})),
            "pictures" => Some(json!({"content": [
                {"type": "text", "text": "two of them"},
                {"type": "image", "data": "QUJD", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "x://a", "mimeType": "image/gif", "blob": "REVG"}},
                {"type": "resource_link", "uri": "x://b", "name": "b"},
            ]})),
            "strange" => Some(json!({"content": "no list"})),
            "huge" => text("x".repeat(17 << 20)),
            "progress" => {
                let token = &params["_meta"]["progressToken"];
                for step in 1..=3 {
                    say(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
                        "params": {"progressToken": token, "progress": step, "total": 3, "message": "baking"}}));
                }
                text("baked".to_owned())
            }
            "grow" => {
                self.has_grown = true;
                say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                text("grown".to_owned())
            }
            "hang" => {
                let file = arguments["file"].as_str().unwrap_or_default().to_owned();
                std::fs::write(&file, "called").expect("the file is written");
                self.waiting = Some(file);
                None
            }
            "die" => {
                eprintln!("the disk is full");
                std::process::exit(7);
            }
            "die_once" => {
                let file = Path::new(arguments["file"].as_str().unwrap_or_default());
                if file.exists() {
                    return text("the second time".to_owned());
                }
                std::fs::write(file, "").expect("the file is written");
                std::process::exit(7);
            }
            "count" => {
                let file = Path::new(arguments["file"].as_str().unwrap_or_default());
                let before = std::fs::read_to_string(file).unwrap_or_default();
                std::fs::write(file, format!("{before}{} ", std::process::id())).expect("the file is written");
                text(before)
            }
            name => Some(
                json!({"isError": true, "content": [{"type": "text", "text": format!("there is no tool {name}")}]}),
            ),
        }
    }
}
