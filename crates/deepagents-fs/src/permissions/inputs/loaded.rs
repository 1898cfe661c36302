//! Files that Python and JavaScript programs load.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::MAX_READ_BYTES;
use crate::permissions::programs::{Search, beginning};

/// Maximum number of programs read.
const MAX_FILES: usize = 64;
/// Extensions of JavaScript programs, which may be left out where one is loaded.
const SCRIPTS: [&str; 8] = ["js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx"];

/// Adds what programs load, and what that loads.
pub(super) fn add(search: &mut Search<'_>, root: &Path, programs: Vec<PathBuf>) {
    let (mut todo, mut read) = (programs, BTreeSet::new());
    while let Some(file) = todo.pop().filter(|_| read.len() < MAX_FILES) {
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let Some(directory) = file.parent().filter(|_| file.starts_with(root) && !read.contains(&file)) else {
            continue;
        };
        let text = beginning(&file, MAX_READ_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if ending == "py"
            || text.lines().next().is_some_and(|first| first.starts_with("#!") && first.contains("python"))
        {
            for name in modules(&text) {
                todo.extend(add_module(search, directory, &name));
            }
        } else if SCRIPTS.contains(&ending) {
            for name in relative_names(&text) {
                let written = directory.join(name);
                let with = SCRIPTS.iter().map(|ending| {
                    let mut name = written.clone().into_os_string();
                    name.push(format!(".{ending}"));
                    PathBuf::from(name)
                });
                let all = with.chain([written.clone(), written.join("index.js")]).filter(|file| file.is_file());
                let all: Vec<PathBuf> = all.collect();
                all.iter().for_each(|file| search.add(file));
                todo.extend(all);
            }
        }
        read.insert(file);
    }
}

/// Adds the files of a Python module in a directory. A module that does not exist there may be created, before one of
/// the same name elsewhere. Returns the files that exist.
pub(super) fn add_module(search: &mut Search<'_>, directory: &Path, name: &str) -> Vec<PathBuf> {
    let path = directory.join(name.trim_start_matches('.').replace('.', "/"));
    let inside = ["__init__.py", "__main__.py"].map(|name| path.join(name));
    let files: Vec<PathBuf> = inside.into_iter().chain([path.with_extension("py")]).collect();
    let found: Vec<PathBuf> = files.iter().filter(|file| file.is_file()).cloned().collect();
    if found.is_empty() {
        search.add(&path.with_extension("py"));
    }
    found.iter().for_each(|file| search.add(file));
    found
}

/// Returns the modules that a Python program imports.
fn modules(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._".contains(c));
        if let Some(names) = line.strip_prefix("import ") {
            let names = names.split(',').filter_map(|name| name.split_whitespace().next());
            found.extend(names.filter(is_name).map(str::to_owned));
        } else if let Some((module, names)) = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) {
            let module = module.trim();
            if module.trim_matches('.').is_empty() {
                let names = names.split([',', '(', ')']).filter_map(|name| name.split_whitespace().next());
                found.extend(names.filter(is_name).map(str::to_owned));
            } else {
                found.extend(Some(module).filter(is_name).map(str::to_owned));
            }
        }
    }
    found
}

/// Returns the quoted names in a JavaScript program that begin with a dot and a slash.
fn relative_names(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split(['"', '\'', '`']).skip(1);
    quoted.filter(|name| (name.starts_with("./") || name.starts_with("../")) && !name.contains('\n'))
}
