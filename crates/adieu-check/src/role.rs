//! What a file is for, by its path: the product, something beside it, or a test.

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of what runs, as far as its path tells.
    Product,
    /// An example, a script, a tool of the developers: what is found there is a note.
    Aside,
    /// A test may block as it likes: its loop serves no client.
    Test,
}

/// How test code is treated while one file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestCode {
    /// Like all other code.
    Checked,
    /// Test functions of this file are left alone.
    Skipped,
    /// All of this file is test code, and left alone.
    WholeFile,
}

impl TestCode {
    /// How the tests in a file of this role are treated.
    pub(crate) fn of(role: Role, checked: bool) -> TestCode {
        match role {
            _ if checked => TestCode::Checked,
            Role::Test => TestCode::WholeFile,
            Role::Product | Role::Aside => TestCode::Skipped,
        }
    }
}

const TEST_FOLDERS: &[&str] = &[
    "tests",
    "test",
    "testing",
    "testdata",
    "test_data",
    "test-data",
    "__tests__",
    "benches",
    "e2e",
    "fixtures",
    "integration_tests",
    "integration-tests",
    "unittests",
    "spec",
    "mocks",
    "test_utils",
    "testutils",
    "ui_tests",
];

const ASIDE_FOLDERS: &[&str] = &[
    "example",
    "examples",
    "sample",
    "samples",
    "demo",
    "demos",
    "dummy",
    "doc",
    "docs",
    "documentation",
    "tutorial",
    "tutorials",
    "cookbook",
    "cookbooks",
    "notebooks",
    "playground",
    "regtest",
    "quickstart",
    "benchmark",
    "benchmarks",
    "bench",
    "perf",
    "scripts",
    "script",
    "ci",
    ".github",
    ".ci",
    ".circleci",
    ".buildkite",
    ".gitlab",
    ".azure-pipelines",
    ".devcontainer",
    "devcontainer",
    "hack",
    "contrib",
    "archive",
    "archived",
    "deprecated",
    "vendor",
    "legacy",
    "third_party",
    "thirdparty",
    "3rdparty",
    "external",
    "migrations",
    "alembic",
    "cli",
    "evals",
    "experiments",
    "templates",
    "xtask",
    "misc",
    "dev",
    "development",
    "getting-started",
];

/// Directories that hold tools where they stand at the root, and parts of the product elsewhere.
const ASIDE_AT_ROOT: &[&str] = &[
    "tools",
    "tool",
    "bin",
    "utils",
    "dev_tools",
    "devtools",
    "build",
];

const ASIDE_FILES: &[&str] = &[
    "setup",
    "cli",
    "gulpfile",
    "gruntfile",
    "manage",
    "fabfile",
    "noxfile",
    "tasks",
    "build",
    "install",
    "bench",
    "benchmark",
    "migrate",
    "migrations",
    "migration",
    "demo",
    "example",
    "examples",
    "__main__",
    "release",
    "versioneer",
];

/// How the files of the languages end.
const CODE: &[&str] = &[
    ".py", ".rs", ".go", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs",
];

/// What a file is for, by its path below the checked root.
pub(crate) fn of(path: &str) -> Role {
    let lower = path.to_ascii_lowercase();
    let (folders, file) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    let is_code = CODE.iter().any(|extension| file.ends_with(extension));
    // `users.test.ts`, `users.e2e-spec.ts`, `vite.config.ts`: what stands between the dots says it.
    let inner = || file.split('.').skip(1);
    let is_test_file = stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || is_code && (stem.starts_with("mock_") || stem.ends_with("_mock") || stem == "mock")
        || is_code && inner().any(|part| matches!(part, "test" | "spec" | "e2e" | "e2e-spec"))
        || is_code
            && matches!(
                stem,
                "conftest" | "tests" | "test" | "testutil" | "testutils" | "test_utils"
            );
    let mut folders_of = folders.split('/').filter(|folder| !folder.is_empty());
    let is_test_folder = |folder: &str| {
        TEST_FOLDERS.contains(&folder)
            || folder.ends_with("testing")
            || folder.ends_with("_tests")
            || folder.ends_with("-tests")
            || folder.starts_with("test-")
    };
    if is_test_file
        || folders_of.clone().any(is_test_folder)
        || words(file).any(|word| word == "test" && !is_code)
    {
        return Role::Test;
    }
    // What was unpacked into `shop-1.2/` has its root there.
    let at_root = folders_of
        .clone()
        .find(|it| !is_versioned(it))
        .unwrap_or("");
    let is_chart = [".yaml", ".yml", ".tpl"]
        .iter()
        .any(|end| file.ends_with(end));
    let is_aside = folders_of.any(|folder| {
        ASIDE_FOLDERS.contains(&folder) && !(is_chart && folder == "templates")
            || folder.starts_with("bench")
            || folder.starts_with("eval_")
            || folder.ends_with("-examples")
            || folder.ends_with("_examples")
    }) || ASIDE_AT_ROOT.contains(&at_root)
        || is_code
            && (ASIDE_FILES.contains(&stem)
                || inner().any(|part| matches!(part, "config" | "conf" | "stories")))
        // What says of itself that it blocks, and what nothing starts any more.
        || is_code && words(stem).any(|word| matches!(word, "blocking" | "archived" | "deprecated"))
        || !is_code
            && words(file).any(|word| {
                matches!(
                    word,
                    "dev"
                        | "develop"
                        | "development"
                        | "local"
                        | "example"
                        | "ci"
                        | "demo"
                        | "debug"
                )
            });
    if is_aside { Role::Aside } else { Role::Product }
}

/// `shop-1.2.3`
fn is_versioned(folder: &str) -> bool {
    folder.rsplit_once('-').is_some_and(|(_, version)| {
        version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.')
    })
}

fn words(file: &str) -> impl Iterator<Item = &str> {
    file.split(['.', '-', '_'])
}

#[cfg(test)]
mod tests {
    use super::{Role, of};

    #[test]
    fn tests_are_known_by_folder_and_by_name() {
        for path in [
            "tests/app.py",
            "a/test/b.py",
            "test_app.py",
            "app_test.py",
            "x/conftest.py",
            "src/sinks/integration_tests.rs",
            "server/main_test.go",
            "servertesting/server.go",
            "server/server_mock.go",
            "src/app.spec.ts",
            "src/app.e2e-spec.ts",
            "src/users.test.tsx",
            "tests/e2e/docker-compose.yml",
            "docker-compose.test.yml",
            "test-services/entrypoint.sh",
        ] {
            assert_eq!(of(path), Role::Test, "{path}");
        }
        for path in [
            "app.py",
            "latest/app.py",
            "contest.py",
            "attestation.py",
            "src/local-storage.ts",
            "setup/app.py",
        ] {
            assert_eq!(of(path), Role::Product, "{path}");
        }
    }

    #[test]
    fn examples_and_tools_stand_aside() {
        for path in [
            "examples/app.py",
            "docs/conf.py",
            "vite.config.ts",
            "gulpfile.js",
            "docker/dummy/main.go",
            "scripts/load.py",
            "setup.py",
            "app/cli.py",
            "tools/gen.py",
            "compose.dev.yaml",
            "Dockerfile.dev",
            ".ci/proxy.dockerfile",
            "shop-1.2.0/bin/start.py",
            "app/templates/page.py",
            "src/blocking_client.rs",
            "app/archived_server.py",
        ] {
            assert_eq!(of(path), Role::Aside, "{path}");
        }
        for path in [
            "app/tools/search.py",
            "device/app.py",
            "compose.yaml",
            "Dockerfile.prod",
            "chart/templates/web.yaml",
            "./app.py",
            "../app.py",
        ] {
            assert_eq!(of(path), Role::Product, "{path}");
        }
    }
}
