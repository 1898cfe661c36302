//! What the directory brings, while the screens are shown: it is offered, and agreed to.

use anyhow::Result;
use deepagents_tui::Offered;

use super::ProgramHost;
use crate::agent;
use crate::interactive::trust;

impl ProgramHost {
    pub(super) async fn offered_now(&self) -> Result<Vec<Offered>> {
        let files = agent::open_beside(&self.args, None).await?;
        let agreed = self.with(|chosen| chosen.agreed.clone());
        Ok(trust::definitions(&self.args, &files, &agreed).await?.offered)
    }

    pub(super) async fn agree_to(&self, names: Option<&[String]>) -> Result<()> {
        let files = agent::open_beside(&self.args, None).await?;
        let open = trust::undecided(&self.args, &files).await?;
        match names {
            // For this session: what was asked for by its name.
            Some(names) => {
                let items = open.into_iter().map(|found| found.item).filter(|item| names.contains(&item.name));
                self.with(|chosen| chosen.agreed.extend(items));
            }
            None => trust::remember(self.args.directory(), open)?,
        }
        Ok(())
    }
}
