//! Settings that an editor can change: mode, model and reasoning effort.

use futures_util::future::OptionFuture;

use super::Session;
use crate::host::AgentHost;
use crate::policy::Mode;
use crate::queue::Place;
use crate::wire;

const MODE: &str = "mode";
const MODEL: &str = "model";
const EFFORT: &str = "effort";
/// The effort that leaves the choice to the model.
const DEFAULT: &str = "default";

impl<H: AgentHost> Session<H> {
    /// Returns the modes, for editors that do not support options.
    pub(crate) fn modes(&self) -> wire::SessionModeState {
        let mode =
            |mode: Mode| wire::SessionMode::new(mode.as_str(), mode.title()).description(mode.description().to_owned());
        wire::SessionModeState::new(self.policy.mode().as_str(), Mode::ALL.into_iter().map(mode).collect())
    }

    /// Returns all options with their current values.
    pub(crate) fn options(&self) -> Vec<wire::SessionConfigOption> {
        let (setup, models) = (self.setup(), self.host.models());
        let modes = Mode::ALL.into_iter().map(|mode| {
            wire::SessionConfigSelectOption::new(mode.as_str(), mode.title()).description(mode.description().to_owned())
        });
        let mode = select(MODE, "Mode", self.policy.mode().as_str(), modes.collect())
            .category(wire::SessionConfigOptionCategory::Mode);
        let names =
            models.iter().map(|model| wire::SessionConfigSelectOption::new(model.name.clone(), short(&model.name)));
        let model =
            select(MODEL, "Model", &setup.model, names.collect()).category(wire::SessionConfigOptionCategory::Model);
        let mut options = vec![mode, model];
        let efforts = self.efforts(&setup.model);
        if !efforts.is_empty() {
            let names = std::iter::once(DEFAULT.to_owned()).chain(efforts);
            let names = names.map(|effort| wire::SessionConfigSelectOption::new(effort.clone(), capitalised(&effort)));
            let effort = select(EFFORT, "Effort", setup.effort.as_deref().unwrap_or(DEFAULT), names.collect())
                .category(wire::SessionConfigOptionCategory::ThoughtLevel);
            options.push(effort);
        }
        options
    }

    fn efforts(&self, model: &str) -> Vec<String> {
        let model = self.host.models().into_iter().find(|known| known.name == model);
        model.map(|model| model.efforts).unwrap_or_default()
    }

    /// Sets the mode, for the older `session/set_mode` request.
    pub(crate) fn change_mode(&self, id: &str) -> Result<(), wire::Error> {
        self.policy.set_mode(known_mode(id)?);
        self.send_options();
        Ok(())
    }

    /// Switches the mode on a slash command.
    pub(super) fn switch(&self, mode: Mode) {
        self.policy.set_mode(mode);
        self.editor.update(wire::SessionUpdate::CurrentModeUpdate(wire::CurrentModeUpdate::new(mode.as_str())));
        self.send_options();
    }

    /// Sends all options, because one has changed by other means than `set_option`.
    fn send_options(&self) {
        self.editor.update(wire::SessionUpdate::ConfigOptionUpdate(wire::ConfigOptionUpdate::new(self.options())));
    }

    /// Takes a place among the changes that rebuild the agent, if that of this option does. Must be called in the order
    /// in which the changes arrive.
    pub(crate) fn register_change(&self, id: &str) -> Option<Place> {
        (id != MODE).then(|| self.changes.place())
    }

    /// Sets an option, for a change that was [registered](Self::register_change). Returns all options.
    pub(crate) async fn set_option(
        &self,
        id: &str,
        value: &wire::SessionConfigOptionValue,
        change: Option<Place>,
    ) -> Result<Vec<wire::SessionConfigOption>, wire::Error> {
        let _turn = OptionFuture::from(change).await;
        let wire::SessionConfigOptionValue::ValueId { value } = value else {
            return Err(wire::invalid(format!("the option `{id}` is not a switch: give one of its values")));
        };
        let (value, setup) = (value.0.to_string(), self.setup());
        let efforts = self.efforts(&setup.model);
        match id {
            MODE => {
                let mode = known_mode(&value)?;
                self.policy.set_mode(mode);
                self.editor.update(wire::SessionUpdate::CurrentModeUpdate(wire::CurrentModeUpdate::new(mode.as_str())));
            }
            MODEL => {
                let models = self.host.models();
                let model = models.iter().find(|model| model.name == value).ok_or_else(|| {
                    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
                    wire::invalid(format!("there is no model `{value}` to choose; there are {}", names.join(", ")))
                })?;
                // The new model may not support the effort.
                let effort = setup.effort.filter(|effort| model.efforts.contains(effort));
                self.choose(value, effort).await?;
            }
            EFFORT if !efforts.is_empty() => {
                if value != DEFAULT && !efforts.contains(&value) {
                    let efforts = efforts.join(", ");
                    return Err(wire::invalid(format!("there is no effort `{value}`; there are {DEFAULT}, {efforts}")));
                }
                self.choose(setup.model, (value != DEFAULT).then_some(value)).await?;
            }
            _ => return Err(wire::invalid(format!("there is no option `{id}`"))),
        }
        Ok(self.options())
    }
}

fn known_mode(id: &str) -> Result<Mode, wire::Error> {
    Mode::from_id(id).ok_or_else(|| {
        let names: Vec<&str> = Mode::ALL.into_iter().map(Mode::as_str).collect();
        wire::invalid(format!("there is no mode `{id}`; there are {}", names.join(", ")))
    })
}

fn select(
    id: &'static str,
    name: &str,
    current: &str,
    options: Vec<wire::SessionConfigSelectOption>,
) -> wire::SessionConfigOption {
    wire::SessionConfigOption::select(id, name, current.to_owned(), options)
}

/// Returns a model's name without its provider.
fn short(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, model)| model)
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
