//! `shell`, fed by a pipe; its history and completion are looked at on a terminal.

use super::project;

#[test]
fn every_line_is_a_command_and_the_last_one_gives_the_exit() {
    let lines = "# a comment\nrun workflows/echo.yaml 'hello there'\n!!\n!run --json\nplan workflows/ask.yaml hi\n";
    let output = project().run_with_stdin(&["shell", "-q"], lines).exits(0);
    assert_eq!(output.stdout.matches("text: hello there!").count(), 2, "{output}");
    assert!(output.stdout.contains("\"status\": \"completed\"") && output.stdout.contains("ask → answer"), "{output}");
}

#[test]
fn a_wrong_line_is_told_and_the_session_goes_on() {
    let lines = "chek\nrun \"open\n!nothing\nshell\nagents\nrun workflows/none.yaml\n";
    let output = project().run_with_stdin(&["shell"], lines).exits(2);
    for part in [
        "'check'",
        "a quote is not closed",
        "no earlier line `!nothing`",
        "a shell already",
        "no file `workflows/none.yaml`",
    ] {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    assert!(output.stdout.contains("echo\n"), "{output}");
}

#[test]
fn files_are_read_anew_for_every_line() {
    let project = project();
    project.write("workflows/broken.yaml", "agent: broken\nactionz: {}\n");
    let output = project.run_with_stdin(&["shell"], "reload\nexit\nagents\n").exits(2);
    assert!(output.stderr.contains("actionz") && output.stderr.contains("checked"), "{output}");
    assert!(!output.stdout.contains("echo"), "nothing after `exit`: {output}");
}

#[test]
fn prompts_and_replies_are_shown_when_the_session_asks_for_them() {
    let output = project().run_with_stdin(&["shell", "-p", "-r"], "run workflows/ask.yaml Why\n").exits(0);
    assert!(output.stderr.contains("Answer this: Why") && output.stderr.contains("Forty-two"), "{output}");
}
