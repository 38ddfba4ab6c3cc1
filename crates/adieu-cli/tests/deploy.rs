//! The files in `deploy/`: parsed, checked by ourselves, and true to what they say of each other.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(name: &str) -> String {
    fs::read_to_string(deploy().join(name)).expect(name)
}

/// `adieu check` parses each of them, and would complain of one that it cannot.
#[test]
fn our_own_check_finds_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_adieu"))
        .arg("check")
        .arg(deploy())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), &*said), (Some(0), ""));
}

/// The words of a command as they stand in a file, whether in a JSON list, in a YAML list or in a line.
fn words(text: &str) -> Vec<String> {
    let text: String = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.strip_prefix("- ").unwrap_or(line))
        .collect::<Vec<_>>()
        .join(" ");
    text.split([' ', ',', '[', ']', '"'])
        .filter(|word| !word.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

fn after(text: &str, option: &str) -> Duration {
    let words = words(text);
    let at = words.iter().position(|word| word == option).expect(option);
    let value = &words[at + 1];
    // Kubernetes and systemd count in seconds.
    let with_unit = value.parse::<u64>().map(|it| format!("{it}s"));
    adieu::parse_duration(with_unit.as_deref().unwrap_or(value)).expect(option)
}

/// What kills from outside comes after our own grace.
#[test]
fn the_grace_fits_the_platform() {
    let docker = after(&read("Dockerfile"), "--grace");
    assert!(
        docker < Duration::from_secs(10),
        "docker stop kills after 10 s"
    );
    for (name, outer) in [
        ("compose.yaml", "stop_grace_period:"),
        ("kubernetes.yaml", "terminationGracePeriodSeconds:"),
    ] {
        let text = read(name);
        let (outer, grace) = (after(&text, outer), after(&text, "--grace"));
        assert!(grace < outer, "{name}: {grace:?} in {outer:?}");
        assert!(after(&text, "--pre-stop") < grace, "{name}");
    }
    let unit = read("shop.service").replace('=', " ");
    assert!(after(&unit, "--grace") < after(&unit, "TimeoutStopSec"));
}

/// The options are options that there are, and the addresses in one file agree.
#[test]
fn the_command_lines_are_understood() {
    for name in [
        "Dockerfile",
        "compose.yaml",
        "kubernetes.yaml",
        "shop.service",
    ] {
        let text = read(name);
        let words = words(&text);
        let begin = words
            .iter()
            .rposition(|word| word == "run" || word.ends_with("ENTRYPOINT"));
        let begin = begin.unwrap_or_else(|| panic!("{name} runs adieu"));
        let options: Vec<&String> = words[begin + 1..]
            .iter()
            .skip_while(|word| !word.starts_with("--"))
            .take_while(|word| *word != "--")
            .collect();
        assert!(options.len() >= 4, "{name}: {options:?}");
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let free = port.local_addr().expect("an address").to_string();
        drop(port);
        let options: Vec<String> = options
            .into_iter()
            .map(|it| match it.as_str() {
                "0.0.0.0:9100" | "127.0.0.1:9100" => free.clone(),
                "tcp:0.0.0.0:8000" => "tcp:127.0.0.1:0".to_owned(),
                other => other.to_owned(),
            })
            .collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_adieu"));
        command.arg("run").args(options).args(["--", "true"]);
        // In a container the platform timeout cannot be seen, unless a variable says it.
        match name {
            "Dockerfile" => drop(command.env("container", "docker")),
            "compose.yaml" => {
                let told = after(&text, "ADIEU_KILL_AFTER:");
                assert_eq!(told, after(&text, "stop_grace_period:"));
                command.env("container", "docker");
                command.env("ADIEU_KILL_AFTER", format!("{}s", told.as_secs()));
            }
            "kubernetes.yaml" => drop(command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1")),
            _ => {}
        }
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        // What a unit grants, systemd says to those that it starts.
        let is_unit = name == "shop.service";
        assert!(
            is_unit || !said.contains("a stop may take"),
            "{name}: {said}"
        );
    }
}

#[test]
fn the_image_is_as_it_should_be() {
    let text = read("Dockerfile");
    for line in ["USER 65534:65534", "STOPSIGNAL SIGTERM"] {
        assert!(text.lines().any(|it| it == line), "{line}");
    }
    for instruction in ["ENTRYPOINT", "CMD"] {
        let line = text.lines().find(|line| line.starts_with(instruction));
        let list = line.and_then(|line| line.strip_prefix(instruction));
        let list: Vec<String> =
            serde_json::from_str(list.expect(instruction).trim()).expect("the exec form");
        assert!(list.len() > 1);
    }
    assert!(text.contains("CMD [\"adieu\", \"health\", "));
}

/// One panic in a handler would end the whole service: no profile that the image could be built with has it so.
#[test]
fn no_profile_aborts_on_a_panic() {
    let manifest = fs::read_to_string(deploy().join("../Cargo.toml")).expect("the manifest");
    assert!(manifest.contains("[profile.dist]"), "the image's profile");
    let dockerfile = read("Dockerfile");
    assert!(dockerfile.contains("--profile dist "), "{dockerfile}");
    let aborts = manifest
        .lines()
        .filter(|line| line.trim_start().starts_with("panic"));
    assert_eq!(aborts.count(), 0);
}
