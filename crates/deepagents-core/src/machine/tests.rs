//! Tests of the state machine.

use super::*;

fn at_answer(limit: u32) -> Machine {
    let mut machine = Machine::new(0, limit);
    machine.hooks_done(JumpTo::Continue, &StepInput::default()).unwrap();
    machine.hooks_done(JumpTo::Continue, &StepInput::default()).unwrap();
    machine.model_asked();
    machine.model_answered(StopReason::End);
    machine
}

fn after(facts: &StepInput) -> NextStep {
    let mut machine = at_answer(10);
    machine.hooks_done(JumpTo::Continue, facts).unwrap();
    machine.next()
}

#[test]
fn calls_without_results_are_run() {
    assert_eq!(after(&StepInput { pending: 2, had_calls: true, ..StepInput::default() }), NextStep::Tools { turn: 0 });
}

#[test]
fn calls_answered_by_hooks_return_to_the_model() {
    assert_eq!(after(&StepInput { had_calls: true, ..StepInput::default() }), NextStep::BeforeModel);
}

#[test]
fn a_paused_answer_is_continued() {
    assert_eq!(after(&StepInput { stop: StopReason::Pause, ..StepInput::default() }), NextStep::BeforeModel);
}

#[test]
fn a_run_at_its_limit_ends_through_the_after_agent_hooks_and_stays_ended() {
    let mut machine = at_answer(1);
    machine.hooks_done(JumpTo::Model, &StepInput::default()).unwrap();
    assert_eq!(machine.next(), NextStep::AfterAgent);
    machine.hooks_done(JumpTo::Model, &StepInput::default()).unwrap();
    assert_eq!(machine.next(), NextStep::Finish(FinishReason::StepLimit));
}

#[test]
fn a_run_ended_by_a_hook_keeps_its_reason_and_does_not_return_to_the_model() {
    let mut machine = at_answer(5);
    machine.hooks_done(JumpTo::EndBecause(EndReason::NoProgress), &StepInput::default()).unwrap();
    assert_eq!(machine.next(), NextStep::AfterAgent);
    machine.hooks_done(JumpTo::Model, &StepInput::default()).unwrap();
    assert_eq!(machine.next(), NextStep::Finish(FinishReason::NoProgress));
    assert!(!machine.prolong());
}

#[test]
fn hooks_that_loop_without_a_model_call_reach_the_step_limit() {
    let mut machine = Machine::new(0, 3);
    let mut rounds = 0;
    while !matches!(machine.next(), NextStep::Finish(_)) {
        let go = if machine.next() == NextStep::BeforeModel { JumpTo::End } else { JumpTo::Model };
        machine.hooks_done(go, &StepInput::default()).unwrap();
        rounds += 1;
        assert!(rounds < 100, "the machine does not end");
    }
    assert_eq!(machine.next(), NextStep::Finish(FinishReason::StepLimit));
}

#[test]
fn a_finished_run_can_be_prolonged_unless_a_hook_ended_it() {
    let mut machine = at_answer(5);
    machine.hooks_done(JumpTo::Continue, &StepInput::default()).unwrap();
    assert!(!machine.prolong(), "it has not finished yet");
    machine.hooks_done(JumpTo::Continue, &StepInput::default()).unwrap();
    assert!(machine.prolong());
    assert_eq!(machine.next(), NextStep::BeforeModel);
    machine.hooks_done(JumpTo::End, &StepInput::default()).unwrap();
    machine.hooks_done(JumpTo::Continue, &StepInput::default()).unwrap();
    assert!(!machine.prolong());
}

#[test]
fn jumping_to_tools_without_calls_is_an_error_that_names_the_phase() {
    let mut machine = Machine::new(0, 1);
    let error = machine.hooks_done(JumpTo::Tools, &StepInput::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "before_agent asked for `tools`, but no call of the last answer is waiting for a result"
    );
}

#[test]
fn a_machine_survives_json() {
    let machine = at_answer(3);
    let json = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
}
