//! Offering what the directory brings, and agreeing to it, while the screens are shown.

use anyhow::Result;
use deepagents_tui::Offered;

use super::ProgramHost;
use crate::agent;
use crate::interactive::trust;

impl ProgramHost {
    pub(super) async fn offered_now(&self) -> Result<Vec<Offered>> {
        let files = agent::open_async(&self.args, None).await?;
        let agreed = self.with(|chosen| chosen.agreed.clone());
        Ok(trust::definitions(&self.args, &files, &agreed).await?.offered)
    }

    pub(super) async fn agree_to(&self, names: Option<&[String]>) -> Result<()> {
        let files = agent::open_async(&self.args, None).await?;
        let open = trust::undecided(&self.args, &files).await?;
        match names {
            // Consent by name holds for this session only.
            Some(names) => {
                let items = open.into_iter().map(|found| found.item).filter(|item| names.contains(&item.name));
                self.with(|chosen| chosen.agreed.extend(items));
            }
            None => trust::remember(self.args.directory(), open)?,
        }
        Ok(())
    }
}
