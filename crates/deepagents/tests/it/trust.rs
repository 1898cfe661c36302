//! Consent to the files of a repository.

use std::path::Path;
use std::sync::Arc;

use deepagents::fs::{Backend, ByteRange, LocalBackend, VPath, WriteMode};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::trust::{
    Consent, FoundItem, TrustError, TrustItem, TrustKind, TrustPlaces, TrustStore, TrustedFiles, survey,
};
use deepagents::{DeepAgent, State, UserFileError};

fn path(text: &str) -> VPath {
    VPath::parse(text).unwrap()
}

fn item(number: usize) -> TrustItem {
    TrustItem::new(TrustKind::Hook, format!("hook {number}"), "/.deepagents/hooks.json", number.to_string())
}

fn put(root: &Path, file: &str, text: impl AsRef<[u8]>) {
    let file = root.join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn places() -> TrustPlaces {
    TrustPlaces {
        memory: vec![path("/AGENTS.md")],
        agents: vec![path("/.deepagents/agents")],
        skills: vec![path("/.deepagents/skills")],
    }
}

#[test]
fn consent_covers_one_version_of_one_item_in_one_place_and_can_be_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    [&here, &there].into_iter().for_each(|root| std::fs::create_dir(root).unwrap());
    let store = TrustStore::at(dir.path().join("own/trust.json"));
    assert!(!store.is_trusted(&here, &item(1)).unwrap());
    store.consent(&here, &item(1)).unwrap();
    store.decide(&here, &[item(2)], Consent::Refused).unwrap();
    assert!(store.is_trusted(&here.join("../here"), &item(1)).unwrap(), "another name of the same directory");
    assert!(!store.is_trusted(&there, &item(1)).unwrap());
    assert_eq!(store.standing(&here, &item(2)).unwrap(), Some(Consent::Refused));
    for other in [
        TrustItem { kind: TrustKind::Command, ..item(1) },
        TrustItem { name: "x".to_owned(), ..item(1) },
        TrustItem { source: "/x".to_owned(), ..item(1) },
        TrustItem { sha256: item(2).sha256, ..item(1) },
    ] {
        assert!(!store.is_trusted(&here, &other).unwrap(), "{other:?}");
    }
    let gone = store.forget(|record| record.item == item(1)).unwrap();
    assert_eq!(gone.len(), 1);
    assert!(!store.is_trusted(&here, &item(1)).unwrap());
    assert_eq!(store.records().unwrap().len(), 1);
}

#[test]
fn concurrent_consents_are_all_stored() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trust.json");
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (file, root) = (&file, dir.path());
            scope.spawn(move || {
                let store = TrustStore::at(file);
                (0..10).for_each(|number| store.consent(root, &item(10 * worker + number)).unwrap());
            });
        }
    });
    assert_eq!(TrustStore::at(&file).records().unwrap().len(), 40);
}

#[test]
fn a_truncated_or_newer_trust_record_is_an_error_and_left_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trust.json");
    let store = TrustStore::at(&file);
    store.consent(dir.path(), &item(1)).unwrap();
    // A temporary file left by a killed process is harmless.
    std::fs::write(dir.path().join("trust.json.new"), "{").unwrap();
    store.consent(dir.path(), &item(2)).unwrap();
    let whole = std::fs::read(&file).unwrap();
    for end in 0..whole.len() {
        std::fs::write(&file, &whole[..end]).unwrap();
        assert!(
            matches!(store.is_trusted(dir.path(), &item(1)), Err(TrustError::File(UserFileError::Damaged { .. }))),
            "{end}"
        );
    }
    assert!(store.consent(dir.path(), &item(3)).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), whole[..whole.len() - 1]);
    std::fs::write(&file, String::from_utf8(whole).unwrap().replace("\"v\": 1", "\"v\": 2")).unwrap();
    let error = store.records().unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("trust.json"), "{error}");
}

#[tokio::test]
async fn a_survey_finds_everything_that_configures_an_agent_and_hashes_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = LocalBackend::open(dir.path()).unwrap();
    assert!(survey(&files, &places()).await.items.is_empty());
    put(dir.path(), "AGENTS.md", "Notes.\n");
    put(dir.path(), ".deepagents/agents/a.md", "---\nname: general-purpose\ndescription: d\nmodel: openai:x\n---\n");
    put(dir.path(), ".deepagents/agents/b/AGENTS.md", "---\ndescription: d\ntools: [ls]\n---\n");
    let far = "---\ndescription: d\nurl: https://far\ngraph_id: g\nheaders:\n  x-api-key: ${KEY}\n---\n";
    put(dir.path(), ".deepagents/agents/c.md", far);
    put(dir.path(), ".deepagents/skills/s/SKILL.md", "---\nname: s\ndescription: d\ntools: [deploy]\n---\n");
    put(dir.path(), ".deepagents/skills/s/deep/run.sh", "one\n");
    put(dir.path(), ".deepagents/skills/none/readme.md", "no skill\n");
    let found = survey(&files, &places()).await;
    let said: Vec<(&str, &str, String)> = found
        .items
        .iter()
        .map(|found| (found.item.name.as_str(), found.item.source.as_str(), found.asks_for.join(" and ")))
        .collect();
    assert_eq!(
        said,
        [
            (
                "general-purpose",
                "/.deepagents/agents/a.md",
                "the role of the standard general-purpose and the model openai:x".to_owned()
            ),
            ("b", "/.deepagents/agents/b/AGENTS.md", "the tools ls".to_owned()),
            (
                "c",
                "/.deepagents/agents/c.md",
                "the server https://far, which gets the tasks it is given and the variables KEY, which that server gets"
                    .to_owned()
            ),
            ("s", "/.deepagents/skills/s", "the tools deploy".to_owned()),
            ("/AGENTS.md", "/AGENTS.md", String::new()),
        ]
    );
    let hashes = |found: deepagents::trust::Survey| found.items.into_iter().map(|f| f.item.sha256).collect::<Vec<_>>();
    let before = hashes(found);
    put(dir.path(), ".deepagents/skills/s/deep/run.sh", "two\n");
    let after = hashes(survey(&files, &places()).await);
    assert_eq!((before[0] == after[0], before[3] == after[3], before[4] == after[4]), (true, false, true));
}

#[tokio::test]
async fn files_outside_the_directory_or_too_large_are_not_trust_items() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(other.path(), "SKILL.md", "---\nname: s\ndescription: d\n---\n");
    put(dir.path(), ".deepagents/agents/big.md", vec![b'x'; (10 << 20) + 1]);
    put(dir.path(), ".deepagents/skills/keep", "");
    std::os::unix::fs::symlink(other.path(), dir.path().join(".deepagents/skills/s")).unwrap();
    std::os::unix::fs::symlink(other.path().join("SKILL.md"), dir.path().join("AGENTS.md")).unwrap();
    let found = survey(&LocalBackend::open(dir.path()).unwrap(), &places()).await;
    assert!(found.items.is_empty(), "{found:?}");
    assert!(
        found.problems.iter().any(|problem| problem.contains("/.deepagents/agents/big.md is left out")),
        "{found:?}"
    );
    assert!(found.problems.iter().any(|problem| problem.starts_with("/AGENTS.md is left out")), "{found:?}");
}

#[tokio::test]
async fn trusted_files_keep_their_approved_content_and_define_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "AGENTS.md", "Notes that were read.\n");
    put(dir.path(), ".deepagents/agents/helper.md", "---\ndescription: Helps.\n---\n");
    let files = LocalBackend::open(dir.path()).unwrap();
    let found = survey(&files, &places()).await;
    let agreed: Vec<&FoundItem> = found.items.iter().filter(|found| found.item.kind == TrustKind::Memory).collect();
    let trusted = Arc::new(agreed.into_iter().collect::<TrustedFiles>());
    put(dir.path(), "AGENTS.md", "Notes that nobody saw.\n");
    let model = ScriptedModel::new([
        Turn::call("read_file", serde_json::json!({"file_path": "/AGENTS.md"})),
        Turn::text("Done."),
    ]);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .backend(files)
        .definitions_from(trusted.clone())
        .memory(["/AGENTS.md"])
        .agents_from(["/.deepagents/agents"])
        .build()
        .unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    let request = &model.requests()[0];
    let system: String = request.system.iter().map(|block| block.text.to_string()).collect();
    assert!(system.contains("Notes that were read.") && !system.contains("Notes that nobody saw."));
    assert!(request.tools.iter().all(|tool| !tool.description.contains("helper")));
    assert!(crate::results(&outcome)[0].0.contains("Notes that nobody saw."), "the file tools see the disk");
    let state = State::default();
    assert!(trusted.write(&state, &path("/AGENTS.md"), "x".into(), WriteMode::Overwrite).await.is_err());
    assert!(trusted.delete(&state, &path("/AGENTS.md")).await.is_err());
    assert!(trusted.read(&state, &path("/none"), ByteRange::ALL).await.is_err());
    let listed = trusted.list(&state, &VPath::root()).await.unwrap();
    assert_eq!(listed.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/AGENTS.md"]);
}
