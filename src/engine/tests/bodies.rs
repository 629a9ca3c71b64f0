//! Bodies that reach outside: `http` against a server of the test, `exec` with real programs, `call` of tools.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Case, failure, output};
use crate::process::{Status, What};

/// A server that answers every request with the next of these answers, and the requests it got.
async fn server(answers: Vec<String>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let requests = seen.clone();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            loop {
                let count = stream.read(&mut buffer).await.unwrap_or(0);
                text.push_str(&String::from_utf8_lossy(&buffer[..count]));
                let Some(head) = text.find("\r\n\r\n") else { continue };
                let length = text.to_ascii_lowercase().split("content-length: ").nth(1).map_or(0, |rest| {
                    rest.split("\r\n").next().and_then(|digits| digits.parse::<usize>().ok()).unwrap_or(0)
                });
                if count == 0 || text.len() >= head + 4 + length {
                    break;
                }
            }
            requests.lock().unwrap().push(text);
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, seen)
}

fn answer(status: &str, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn get(http: &str) -> Case {
    Case::new(&format!(
        "agent: http
config: {{url: none}}
types: {{Quote: {{text: string}}, Story: string}}
inputs: UserInput
actions: {{fetch: {{inputs: UserInput, output: Quote, {http}}}}}
goals: {{done: {{output: Quote}}}}
"
    ))
}

#[tokio::test]
async fn http_sends_what_is_written_and_selects_from_the_answer() {
    let (url, seen) = server(vec![answer("200 OK", "application/json", r#"{"data": {"text": "hi"}}"#)]).await;
    let http = "http: {method: POST, url: '{{ config.url }}/v1/{{ user_input.content | urlencode }}', query: {n: 3, none: null, tag: [a, b]},
    headers: {Authorization: 'Bearer ${env:TEST_TOKEN:-secret42}'}, json: {q: '{{ user_input.content }}'}, select: response.json.data}";
    let document = get(http).options(|options| drop(options.config.insert("url".into(), json!(url)))).run().await;
    assert_eq!(output(&document), json!({"text": "hi"}));
    let request = seen.lock().unwrap()[0].clone();
    assert!(request.starts_with("POST /v1/hello?n=3&tag=a&tag=b HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains("authorization: Bearer secret42\r\n") && request.ends_with(r#"{"q":"hello"}"#),
        "{request}"
    );
}

#[tokio::test]
async fn an_error_answer_fails_with_the_servers_words() {
    let body = r#"{"error": {"message": "no such quote"}}"#;
    let (url, _) = server(vec![answer("404 Not Found", "application/json", body)]).await;
    let set = |url: &str| {
        let url = url.to_owned();
        move |options: &mut super::RunOptions| drop(options.config.insert("url".into(), json!(url)))
    };
    let document = get("http: '{{ config.url }}/q?key=abc'").options(set(&url)).run().await;
    let (kind, message) = failure(&document);
    assert_eq!(kind, "http");
    assert_eq!(message, format!("GET {url}/q answered 404 Not Found: no such quote"));
    let (url, _) = server(vec![answer("200 OK", "text/html", "<html>")]).await;
    let document = get("http: '{{ config.url }}'").options(set(&url)).run().await;
    assert!(failure(&document).1.contains("is not JSON"), "{:?}", document.failure);
    let document = get("http: 'http://127.0.0.1:9/x'").run().await;
    assert!(failure(&document).1.contains("cannot be reached"), "{:?}", document.failure);
}

#[tokio::test]
async fn an_answer_over_16_mib_is_refused() {
    let (url, _) = server(vec![answer("200 OK", "text/plain", &"x".repeat(16 * 1024 * 1024 + 1))]).await;
    let document = get("http: '{{ config.url }}'")
        .options(|options| drop(options.config.insert("url".into(), json!(url))))
        .run()
        .await;
    assert!(failure(&document).1.contains("larger than the 16 MiB"), "{:?}", document.failure);
}

#[tokio::test]
async fn redirects_are_followed_without_the_authors_headers_to_another_server() {
    let (target, seen) = server(vec![answer("200 OK", "application/json", r#"{"text": "there"}"#)]).await;
    let moved =
        format!("HTTP/1.1 302 Found\r\nlocation: {target}/new\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let (url, _) = server(vec![moved]).await;
    let document = get("http: {url: '{{ config.url }}', headers: {X-Key: secret42}}")
        .options(|options| drop(options.config.insert("url".into(), json!(url))))
        .run()
        .await;
    assert_eq!(output(&document), json!({"text": "there"}));
    let request = seen.lock().unwrap()[0].clone();
    assert!(request.starts_with("GET /new ") && !request.contains("secret42"), "{request}");
}

#[tokio::test]
async fn a_redirect_to_where_nothing_may_be_asked_is_refused() {
    let (target, seen) = server(vec![answer("200 OK", "application/json", r#"{"text": "there"}"#)]).await;
    let moved =
        format!("HTTP/1.1 302 Found\r\nlocation: {target}/new?k=1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let (url, _) = server(vec![moved]).await;
    let project = "models: {default: openai/gpt-4.1-mini}\npermissions: {allow: [internet], deny: ['http://*/new']}\n";
    let document = get("http: '{{ config.url }}/old'")
        .file("agent-run.yaml", project)
        .options(|options| drop(options.config.insert("url".into(), json!(url))))
        .run()
        .await;
    let message =
        format!("{url}/old redirects to {target}/new: the project denies `internet`, which `{target}/new` needs");
    assert_eq!(failure(&document), ("permission".to_owned(), message));
    assert!(seen.lock().unwrap().is_empty(), "the other server was asked");
}

#[tokio::test]
async fn a_dry_run_sends_nothing_that_changes_something() {
    let document = get("http: {method: DELETE, url: 'http://127.0.0.1:9/x'}")
        .options(|options| options.dry_run = true)
        .run()
        .await;
    assert_eq!(document.status, Status::Completed);
    assert!(output(&document)["text"].is_string());
}

fn exec(exec: &str, project: &str) -> Case {
    Case::new(&format!(
        "agent: exec
types: {{Info: {{name: string}}, Story: string}}
inputs: UserInput
actions:
  {exec}
goals: {{done: {{output: Story}}}}
"
    ))
    .file("agent-run.yaml", &format!("models: {{default: openai/gpt-4.1-mini}}\n{project}"))
}

#[tokio::test]
async fn a_program_reads_its_input_and_gives_text_or_json() {
    let allow = "permissions: {allow: [exec]}\n";
    let actions =
        "info: {inputs: UserInput, output: Info, exec: {command: [cat], stdin: {name: '{{ user_input.content }}'}}}
  story: {inputs: Info, output: Story, exec: [printf, '%s!', '{{ info.name }}']}";
    let document = exec(actions, allow).run().await;
    assert_eq!(output(&document), json!("hello!"));
    let document =
        exec("story: {inputs: UserInput, output: Story, exec: [sh, -c, 'echo bad >&2; exit 2']}", allow).run().await;
    assert_eq!(failure(&document), ("exec".into(), "`sh` ended with status 2: bad".into()));
    let slow = "story: {inputs: UserInput, output: Story, exec: {command: [sleep, '5'], timeout: 100ms}}";
    assert_eq!(failure(&exec(slow, allow).run().await).0, "timeout");
}

#[tokio::test]
async fn a_program_needs_a_permission_which_nobody_gives_without_a_terminal() {
    let action = "story: {inputs: UserInput, output: Story, exec: [echo, hi]}";
    let document = exec(action, "").run().await;
    assert_eq!(failure(&document).0, "permission");
    assert!(failure(&document).1.contains("permissions: {allow: [exec]}"), "{:?}", document.failure);
    let document = exec(action, "").options(|options| options.yes = true).run().await;
    assert_eq!(output(&document), json!("hi"));
    let document = exec(action, "permissions: {deny: [exec]}\n").options(|options| options.yes = true).run().await;
    assert!(failure(&document).1.contains("denies"), "{:?}", document.failure);
}

#[tokio::test]
async fn a_called_tool_sees_its_arguments_validated_and_defaulted() {
    let case = |with: &str| {
        Case::new(&format!(
            "agent: caller
types: {{Forecast: {{city: string, days: integer}}}}
inputs: UserInput
tools:
  forecast:
    description: Weather forecast
    parameters: {{city: string, days?: {{type: integer, default: 3, maximum: 14}}}}
    set: {{city: '{{{{ city }}}}', days: '{{{{ days }}}}'}}
actions:
  ask: {{inputs: UserInput, output: Forecast, call: {{tool: forecast, with: {with}}}}}
goals: {{done: {{output: Forecast}}}}
"
        ))
    };
    let document = case("{city: '{{ user_input.content }}'}").run().await;
    assert_eq!(output(&document), json!({"city": "hello", "days": 3}));
    let tools: Vec<(&str, &str)> =
        document.history[0].tools.iter().map(|tool| (tool.name.as_str(), tool.status.as_str())).collect();
    assert_eq!((tools, document.usage.tool_calls), (vec![("forecast", "ok")], 1));
    let document = case("{city: x, days: '{{ user_input.content | length + 10 }}'}").run().await;
    assert_eq!(failure(&document).0, "tool");
    assert!(failure(&document).1.contains("days"), "{:?}", document.failure);
}

#[tokio::test]
async fn pictures_are_read_from_the_project_and_sent_first() {
    let case = Case::new(
        "agent: looks
types: {Story: string}
inputs: UserInput
actions: {look: {inputs: UserInput, output: Story, prompt: {user: What is it?, images: [photos/cat.jpg, 'https://example.com/dog.gif']}}}
goals: {done: {output: Story}}
",
    )
    .file("photos/cat.jpg", "GIF89a")
    .script(json!([{"reply": "a cat"}]));
    let (document, events) = case.observed().await;
    assert_eq!(output(&document), json!("a cat"));
    let sent = events.iter().find_map(|event| match &event.what {
        What::LlmRequest { messages, .. } => Some(messages[0]["parts"].clone()),
        _ => None,
    });
    let expected = json!([
        // What it is counts, not what it is called.
        {"type": "image", "mime": "image/gif", "source": {"data": "R0lGODlh"}},
        {"type": "image", "mime": "image/gif", "source": {"url": "https://example.com/dog.gif"}},
        {"type": "text", "text": "What is it?"},
    ]);
    assert_eq!(sent, Some(expected));
}

#[tokio::test]
async fn choose_takes_the_first_branch_that_holds() {
    let workflow = "agent: chooses
types: {Intent: {abstract: true}, Billing: {is: Intent, fields: {what: string}}, Support: {is: Intent}, Done: string}
inputs: UserInput
actions:
  route:
    inputs: UserInput
    output: Intent?
    choose:
      - {when: \"'bill' in user_input.content\", type: Billing, set: {what: '{{ user_input.content }}'}}
      - {when: \"'help' in user_input.content\", type: Support}
  billing: {inputs: Billing, output: Done, set: 'billing {{ billing.what }}'}
  support: {inputs: Support, output: Done, set: support}
goals: {done: {output: Done}}
";
    let run = |text: &str| Case::new(workflow).inputs(vec![super::Input::Text(text.into())]).run();
    assert_eq!(output(&run("my bill").await), json!("billing my bill"));
    assert_eq!(output(&run("help").await), json!("support"));
    let document = run("other").await;
    assert_eq!((document.status, document.history[0].status.word()), (Status::Stuck, "empty"));
    assert_eq!(document.output.map(|typed| typed.value), None::<Value>);
}
