//! OpenAPI documents of several files, bodies of several parts, and material that is wrong while the rest works.

use serde_json::{Value, json};

use crate::support::mock_llm::{Answer, MockLlm};
use crate::support::project::Project;

use super::references::{Site, call, project};

/// An API whose types stand in another file, which leads back to it.
pub(super) const SHOP: &str = "openapi: 3.0.3
info: {title: Shop, version: '1'}
servers: [{url: /v1}]
paths:
  /orders:
    post:
      operationId: addOrder
      requestBody: {$ref: 'types/all.yaml#/bodies/Order'}
      responses: {'201': {description: It is taken}}
  /photos:
    post:
      operationId: addPhoto
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema:
              type: object
              required: [photo]
              properties:
                title: {type: string}
                photo: {type: string, format: binary}
                order: {$ref: 'types/all.yaml#/Order'}
            encoding: {photo: {contentType: image/png}}
      responses: {'201': {description: It is taken}}
components:
  schemas:
    Customer: {type: object, properties: {orders: {type: array, items: {$ref: 'types/all.yaml#/Order'}}}}
";

pub(super) const TYPES: &str = "bodies:
  Order: {required: true, content: {application/json: {schema: {$ref: '#/Order'}}}}
Order:
  type: object
  required: [sum]
  properties:
    sum: {type: integer}
    next: {$ref: '#/Order'}
    customer: {$ref: '../shop.yaml#/components/schemas/Customer'}
";

fn describe(project: &Project, operation: &str) -> Value {
    call(project, "shop_describe", &json!({"operation": operation}).to_string()).exits(0).json()
}

#[test]
fn documents_in_several_files_are_one_and_lead_in_circles() {
    let project = project("  shop: {openapi: apis/shop.yaml}\n", "shop")
        .file("apis/shop.yaml", SHOP)
        .file("apis/types/all.yaml", TYPES);
    project.run(&["check"]).exits(0);
    let told = describe(&project, "addOrder");
    let names: Vec<&String> = told["schemas"].as_object().expect("schemas").keys().collect();
    assert_eq!(names, ["Order_2", "Customer"], "{told:#}");
    assert_eq!(told["schemas"]["Order_2"]["properties"]["next"]["$ref"], "#/components/schemas/Order_2");
    let refused = call(&project, "shop_call", r#"{"operation": "addOrder", "body": {"sum": 1, "next": {"sum": "x"}}}"#);
    let refused = refused.exits(1);
    assert!(refused.stderr.contains("`body/next/sum`"), "{refused}");
}

#[test]
fn documents_at_a_url_lead_to_others_of_their_server_alone() {
    let site = Site::start();
    let own = project(&format!("  shop: {{openapi: '{}/api/shop.yaml'}}\n", site.base), "shop");
    assert_eq!(describe(&own, "addOrder")["schemas"]["Order_2"]["required"], json!(["sum"]));
    assert_eq!(site.heard(), ["GET /api/shop.yaml HTTP/1.1", "GET /api/types/all.yaml HTTP/1.1"]);
    let other = project(&format!("  shop: {{openapi: '{}/api/elsewhere.yaml?key=k1'}}\n", site.base), "shop");
    let refused = call(&other, "shop_describe", r#"{"operation": "addOrder"}"#).exits(1);
    let says = ["/api/elsewhere.yaml` refers to `http://localhost:9/all.yaml`", "it is of another server"];
    assert!(says.iter().all(|part| refused.stderr.contains(part)) && !refused.stderr.contains("k1"), "{refused}");
}

#[test]
fn parts_are_sent_as_the_document_says() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(MockLlm::start(|_| Answer::json(201, &json!({"id": 7}))));
    let project = project(&format!("  shop: {{openapi: apis/shop.yaml, base_url: '{}'}}\n", server.url()), "shop")
        .env("NO_PROXY", "*")
        .file("apis/shop.yaml", SHOP)
        .file("apis/types/all.yaml", TYPES);
    assert!(describe(&project, "addPhoto")["body"]["note"].as_str().is_some_and(|note| note.contains("data:")));
    let body = json!({"title": "Rex", "photo": "data:image/jpeg;base64,aGVsbG8=", "order": {"sum": 2}});
    let done = call(&project, "shop_call", &json!({"operation": "addPhoto", "body": body}).to_string()).exits(0);
    assert_eq!(done.json()["id"], 7);
    let received = server.received();
    let kind = received[0].header("content-type").unwrap_or_default();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap_or_else(|| panic!("{kind}"));
    let text = received[0].text.replace(boundary, "B").replace("\r\n", "\n");
    assert_eq!(
        text,
        "--B\nContent-Disposition: form-data; name=\"title\"\n\nRex\n\
         --B\nContent-Disposition: form-data; name=\"photo\"; filename=\"photo\"\nContent-Type: image/jpeg\n\nhello\n\
         --B\nContent-Disposition: form-data; name=\"order\"\nContent-Type: application/json\n\n{\"sum\":2}\n--B--\n"
    );
    let wrong = call(&project, "shop_call", r#"{"operation": "addPhoto", "body": {"title": "Rex"}}"#).exits(1);
    assert!(wrong.stderr.contains("photo"), "{wrong}");
}

/// What else is in a project whose one reference is wrong.
fn beside(references: &str) -> Project {
    project(references, "bad").file(
        "workflows/fine.yaml",
        "agent: fine\ninputs: UserInput\ntypes: {Answer: {text: string}}\nreferences: {guide: {text: Write plainly.}}\nactions:\n  \
         answer: {inputs: UserInput, output: Answer, references: guide, prompt: Hello, achieves: Done}\n",
    )
}

/// Whether the other agent of the project runs.
fn works(project: &Project) {
    project.run(&["run", "workflows/fine.yaml", "hello", "--no-store"]).exits(0);
}

#[test]
fn documents_that_lead_nowhere_are_refused_at_their_place_and_the_rest_works() {
    let circle = "openapi: 3.0.0\npaths: {/a: {$ref: '#/components/pathItems/a'}}\ncomponents: {pathItems: {a: {$ref: other.yaml}}}\n";
    let cases = [
        (circle, "$ref: 'bad.yaml#/components/pathItems/a'\n", "the path `/a`: its references lead in a circle"),
        (circle, "", "`apis/bad.yaml` has no operations"),
        (
            "openapi: 3.0.0\npaths: {/a: {$ref: none.yaml}}\n",
            "",
            "`apis/bad.yaml` leads to `apis/none.yaml`, which cannot be read",
        ),
        (
            "openapi: 3.0.0\npaths: {/a: {$ref: ../../a.yaml}}\n",
            "",
            "refers to `../../a.yaml`: it leads out of the project",
        ),
        (
            "openapi: 3.0.0\npaths: {/a: {$ref: 'https://example.com/a.yaml'}}\n",
            "",
            "keep a copy of the other document beside it",
        ),
        ("openapi: 3.0.0\npaths: {/a: {$ref: 'other.yaml#/b'}}\n", "a: 1\n", "`apis/other.yaml` has no `#/b`"),
    ];
    for (document, other, says) in cases {
        let project =
            beside("  bad: {openapi: apis/bad.yaml}\n").file("apis/bad.yaml", document).file("apis/other.yaml", other);
        let refused = project.run(&["check"]).exits(2);
        let place = refused.stderr.contains("error[bad-openapi]") && refused.stderr.contains("workflows/a.yaml:7:");
        assert!(place && refused.stderr.contains(says), "{says}: {refused}");
        works(&project);
    }
}

#[test]
fn pages_repositories_and_skills_that_are_wrong_are_told_and_the_rest_works() {
    let site = Site::start();
    let endless = beside(&format!("  bad: {{web_page: \"{}/endless\"}}\n", site.base));
    let failed = endless.run(&["run", "workflows/a.yaml", "hello", "--no-store"]).exits(1);
    assert!(failed.stderr.contains("the reference `bad`") && failed.stderr.contains("/endless"), "{failed}");
    works(&endless);

    let unsafe_url = beside("  bad: {git: \"ext::sh -c true\"}\n");
    let refused = unsafe_url.run(&["check"]).exits(2);
    let says = ["error[bad-url]", "this is not the URL of a repository", "workflows/a.yaml:7:14"];
    assert!(says.iter().all(|part| refused.stderr.contains(part)), "{refused}");
    works(&unsafe_url);

    // One that looks like a repository and is none is told when a run needs it.
    let none = beside("  bad: {git: \"file:///nowhere/none.git\", mode: prompt}\n");
    let failed = none.run(&["run", "workflows/a.yaml", "hello", "--no-store", "--yes"]).exits(1);
    assert!(failed.stderr.contains("the reference `bad`") || failed.stderr.contains("`git`"), "{failed}");
    works(&none);

    let broken = beside("  bad: {skills: skills}\n")
        .file("skills/count/SKILL.md", "---\nname: count\ndescription: Counts.\n---\nCount.\n")
        .file("skills/broken/SKILL.md", "---\nname: [broken\n---\nX\n");
    let warned = broken.run(&["check"]).exits(0);
    let says = ["warning[unclosed-bracket]", "the skill is left out", "skills/broken/SKILL.md:2:"];
    assert!(says.iter().all(|part| warned.stderr.contains(part)), "{warned}");
    broken.run(&["run", "workflows/a.yaml", "hello", "--no-store"]).exits(0);
    let listed = call(&broken, "bad_activate", r#"{"name": "count"}"#).exits(0);
    assert!(listed.stdout.contains("Count."), "{listed}");
}
