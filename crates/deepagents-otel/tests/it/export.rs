//! What receivers get, and what happens without them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::forward_model;
use deepagents_core::journal::MemoryJournal;
use deepagents_core::message::{AssistantMessage, Block, Origin};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelServer, ModelSettings};
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_otel::{Content, Endpoint, ExportConfig, Protocol, Sampler, TraceOptions, Tracer};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use serde_json::json;

use crate::agents::{Shared, agree, builder, research, usage};
use crate::receiver::{Behaviour, Receiver};

const LONG: Duration = Duration::from_secs(60);

fn answers(count: usize) -> Agent {
    let turns = (0..count).map(|n| Turn::text(format!("{n}")).usage(usage(7, 1)));
    builder(ScriptedModel::new(turns)).name("main").build().unwrap()
}

fn config(protocol: Protocol, receiver: &Receiver) -> ExportConfig {
    let url = |path: &str| if protocol == Protocol::Grpc { receiver.url("") } else { receiver.url(path) };
    let mut traces = Endpoint::new(protocol, url("/v1/traces"));
    traces.headers.push(("x-key".to_owned(), "k".to_owned()));
    let metrics = Endpoint::new(protocol, url("/v1/metrics"));
    ExportConfig { traces: Some(traces), metrics: Some(metrics), ..ExportConfig::default() }
}

#[tokio::test]
async fn http_and_grpc_collectors_receive_all_spans_and_metrics_of_a_run() {
    for protocol in [Protocol::HttpProtobuf, Protocol::HttpJson, Protocol::Grpc] {
        let receiver = Receiver::start(protocol == Protocol::Grpc, Behaviour::Takes).await;
        let tracer = Tracer::new(config(protocol, &receiver), TraceOptions::default()).unwrap();
        let agent = research().journal(MemoryJournal::new()).build().unwrap();
        let observer = tracer.observer();
        agree(&agent, "t1", "Find out.", |input| input.observer(observer.clone())).await;
        let report = tracer.shutdown(LONG).await;
        let received = receiver.received.lock().unwrap();
        let spans = received.spans();
        assert_eq!(
            (report.exported, report.dropped, &report.last_error),
            (spans.len() as u64, 0, &None),
            "{protocol:?}"
        );
        let mut names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        names.sort_unstable();
        insta::assert_snapshot!("exported_spans", names.join("\n"));
        assert!(received.headers.iter().any(|headers| headers.get("x-key").is_some_and(|key| key == "k")));
        assert!(spans.iter().all(|span| span.trace_id.len() == 16 && span.span_id.len() == 8));
        let resource = received.traces[0].resource_spans[0].resource.clone().unwrap();
        assert_eq!(resource.attributes[0].key, "service.name");
        let metrics = &received.metrics.last().unwrap().resource_metrics[0].scope_metrics[0].metrics;
        let shown: Vec<String> = metrics
            .iter()
            .map(|metric| match metric.data.as_ref().unwrap() {
                Data::Histogram(all) => {
                    let points = all.data_points.iter();
                    let counts = points.map(|point| {
                        let values =
                            point.attributes.iter().map(|attribute| match &attribute.value.as_ref().unwrap().value {
                                Some(opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(text)) => {
                                    text.clone()
                                }
                                other => format!("{other:?}"),
                            });
                        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                        format!("  {} × {}", point.count, values.collect::<Vec<_>>().join(" "))
                    });
                    format!("{} {}\n{}", metric.name, metric.unit, counts.collect::<Vec<_>>().join("\n"))
                }
                _ => format!("{} {}", metric.name, metric.unit),
            })
            .collect();
        insta::assert_snapshot!("exported_metrics", shown.join("\n"));
    }
}

#[tokio::test]
async fn nothing_is_lost_when_a_collector_is_briefly_busy() {
    for (protocol, status) in [(Protocol::HttpProtobuf, 503), (Protocol::Grpc, 14)] {
        let receiver = Receiver::start(protocol == Protocol::Grpc, Behaviour::FailsOnce(status)).await;
        let config = ExportConfig { metrics: None, timeout: LONG, ..config(protocol, &receiver) };
        let tracer = Tracer::new(config, TraceOptions::default()).unwrap();
        answers(1).invoke(tracer.observe("Go.")).await.unwrap();
        let report = tracer.shutdown(LONG).await;
        assert_eq!((report.exported, report.dropped), (2, 0), "{report:?}");
        assert_eq!(receiver.received.lock().unwrap().spans().len(), 2);
    }
}

#[tokio::test]
async fn any_retry_after_value_is_survived_by_the_exporter() {
    for seconds in ["9223372036854775807", "18446744073709551615"] {
        let receiver = Receiver::start(false, Behaviour::BusyOnce(seconds)).await;
        let config = ExportConfig {
            metrics: None,
            timeout: Duration::ZERO,
            schedule_delay: Duration::from_millis(1),
            ..config(Protocol::HttpProtobuf, &receiver)
        };
        let tracer = Tracer::new(config, TraceOptions::default()).unwrap();
        answers(1).invoke(tracer.observe("Go.")).await.unwrap();
        while receiver.received.lock().unwrap().requests == 0 {
            tokio::task::yield_now().await;
        }
        // Shutdown does not wait for the delay that the receiver asked for.
        let report = tracer.shutdown(LONG).await;
        assert_eq!((report.exported, report.dropped), (2, 0), "{report:?}");
    }
}

#[tokio::test]
async fn a_retry_after_date_beyond_the_timeout_ends_the_attempts() {
    let receiver = Receiver::start(false, Behaviour::BusyOnce("Fri, 31 Dec 9999 23:59:59 GMT")).await;
    let config = ExportConfig { metrics: None, timeout: LONG, ..config(Protocol::HttpProtobuf, &receiver) };
    let tracer = Tracer::new(config, TraceOptions::default()).unwrap();
    answers(1).invoke(tracer.observe("Go.")).await.unwrap();
    let report = tracer.shutdown(LONG).await;
    assert_eq!((report.exported, report.dropped), (0, 2), "{report:?}");
    assert_eq!(receiver.received.lock().unwrap().requests, 1);
}

/// The usual pause is longer than this export's timeout.
#[tokio::test]
async fn a_retry_after_date_in_the_past_does_not_shorten_the_usual_pause() {
    let receiver = Receiver::start(false, Behaviour::BusyOnce("Thu, 01 Jan 1970 00:00:00 GMT")).await;
    let timeout = Duration::from_millis(400);
    let config = ExportConfig { metrics: None, timeout, ..config(Protocol::HttpProtobuf, &receiver) };
    let tracer = Tracer::new(config, TraceOptions::default()).unwrap();
    answers(1).invoke(tracer.observe("Go.")).await.unwrap();
    let report = tracer.shutdown(LONG).await;
    assert_eq!((report.exported, report.dropped), (0, 2), "{report:?}");
}

#[tokio::test]
async fn shutdown_may_wait_for_ever_and_a_failed_start_leaves_no_task() {
    let receiver = Receiver::start(false, Behaviour::Takes).await;
    let tracer = Tracer::new(config(Protocol::HttpProtobuf, &receiver), TraceOptions::default()).unwrap();
    answers(1).invoke(tracer.observe("Go.")).await.unwrap();
    let report = tracer.shutdown(Duration::MAX).await;
    assert_eq!((report.exported, report.dropped), (2, 0), "{report:?}");
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let metrics = Some(Endpoint::new(Protocol::HttpProtobuf, "no address"));
    let export = ExportConfig { metrics, ..config(Protocol::HttpProtobuf, &receiver) }.file(io::sink());
    Tracer::new(export, TraceOptions::default()).unwrap_err();
    assert!(tasks() <= before);
}

#[tokio::test]
async fn data_rejected_by_a_collector_is_counted_and_not_resent() {
    for (protocol, behaviour) in [
        (Protocol::HttpProtobuf, Behaviour::Fails(400)),
        (Protocol::Grpc, Behaviour::Fails(3)),
        (Protocol::HttpProtobuf, Behaviour::Refuses(2)),
        (Protocol::HttpJson, Behaviour::Refuses(2)),
        (Protocol::Grpc, Behaviour::Refuses(2)),
    ] {
        let receiver = Receiver::start(protocol == Protocol::Grpc, behaviour).await;
        let config = ExportConfig { metrics: None, ..config(protocol, &receiver) };
        let tracer = Tracer::new(config, TraceOptions::default()).unwrap();
        answers(1).invoke(tracer.observe("Go.")).await.unwrap();
        let report = tracer.shutdown(LONG).await;
        assert_eq!((report.exported, report.dropped), (0, 2), "{protocol:?} {behaviour:?} {report:?}");
        assert!(report.last_error.unwrap().contains("refused"));
        assert_eq!(receiver.received.lock().unwrap().requests, 1, "{protocol:?} {behaviour:?}");
    }
}

#[tokio::test]
async fn a_hanging_collector_delays_no_run_and_the_queue_is_bounded() {
    let receiver = Receiver::start(false, Behaviour::Hangs).await;
    let config =
        ExportConfig { max_queue: 8, max_batch: 4, timeout: LONG, ..config(Protocol::HttpProtobuf, &receiver) };
    let tracer = Tracer::new(config, TraceOptions::default()).unwrap();
    let agent = answers(50);
    for _ in 0..50 {
        agent.invoke(tracer.observe("Go.")).await.unwrap();
    }
    // At most four spans are in flight, and eight are queued.
    assert!(tracer.report().dropped >= 100 - 12, "{:?}", tracer.report());
    let report = tracer.shutdown(Duration::from_millis(20)).await;
    assert_eq!((report.exported, report.dropped), (0, 100), "{report:?}");
    let why = report.last_error.unwrap();
    assert!(why.contains(&receiver.url("")) && why.contains("before the end"), "{why}");
}

#[tokio::test]
async fn a_dead_or_missing_collector_ends_no_run_and_losses_are_counted() {
    for protocol in [Protocol::HttpProtobuf, Protocol::Grpc] {
        let receiver = Receiver::start(protocol == Protocol::Grpc, Behaviour::Takes).await;
        let config = ExportConfig { max_batch: 2, timeout: LONG, ..config(protocol, &receiver) };
        let tracer = Tracer::new(config, TraceOptions::default()).unwrap();
        let agent = answers(3);
        agent.invoke(tracer.observe("Go.")).await.unwrap();
        let taken = || receiver.received.lock().unwrap().spans().len();
        while taken() < 2 || tracer.report().exported < 2 {
            tokio::task::yield_now().await;
        }
        drop(receiver);
        agent.invoke(tracer.observe("Go.")).await.unwrap();
        agent.invoke(tracer.observe("Go.")).await.unwrap();
        let report = tracer.shutdown(LONG).await;
        assert_eq!((report.exported, report.dropped), (2, 4), "{protocol:?} {report:?}");
        let why = report.last_error.unwrap();
        assert!(why.contains("cannot be reached: http://127.0.0.1:"), "{why}");
    }
}

#[tokio::test]
async fn a_file_export_has_one_json_line_per_request_and_every_span() {
    let file: Shared<Vec<u8>> = Arc::default();
    let tracer = Tracer::new(ExportConfig::default().file(Memory(file.clone())), TraceOptions::default()).unwrap();
    let agent = research().journal(MemoryJournal::new()).build().unwrap();
    let observer = tracer.observer();
    agree(&agent, "t1", "Find out.", |input| input.observer(observer.clone())).await;
    let report = tracer.shutdown(LONG).await;
    let text = String::from_utf8(file.lock().unwrap().clone()).unwrap();
    let requests = text.lines().map(|line| serde_json::from_str::<ExportTraceServiceRequest>(line).unwrap());
    let count: usize = requests.map(|request| request.resource_spans[0].scope_spans[0].spans.len()).sum();
    assert_eq!((report.exported, report.dropped), (count as u64, 0));
    assert!(text.contains(r#""name":"execute_tool lookup""#) && text.contains(r#""intValue":"10""#), "{text}");
    assert!(!text.contains("s3cr3t"));
}

#[tokio::test]
async fn an_unwritable_file_ends_no_run_and_the_loss_is_reported() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let tracer = Tracer::new(ExportConfig::default().file(Full), TraceOptions::default()).unwrap();
    answers(1).invoke(tracer.observe("Go.")).await.unwrap();
    let report = tracer.shutdown(LONG).await;
    assert_eq!((report.exported, report.dropped), (0, 2));
    assert!(report.last_error.unwrap().contains("file"));
}

#[tokio::test]
async fn unsampled_traces_are_measured_but_not_exported() {
    let receiver = Receiver::start(false, Behaviour::Takes).await;
    let mut options = TraceOptions::default();
    options.sampler = Sampler::AlwaysOff;
    let tracer = Tracer::new(config(Protocol::HttpProtobuf, &receiver), options).unwrap();
    answers(1).invoke(tracer.observe("Go.")).await.unwrap();
    let report = tracer.shutdown(LONG).await;
    assert_eq!((report.exported, report.dropped), (0, 0));
    let received = receiver.received.lock().unwrap();
    assert_eq!((received.traces.len(), received.metrics.len()), (0, 1));
}

#[tokio::test]
async fn model_servers_get_the_trace_when_enabled_and_side_requests_are_spans() {
    for asked in [true, false] {
        let file: Shared<Vec<u8>> = Arc::default();
        let mut options = TraceOptions::default();
        options.propagate = asked;
        let tracer = Tracer::new(ExportConfig::default().file(Memory(file.clone())), options).unwrap();
        let model = ScriptedModel::new([
            Turn::call("again", json!({})).usage(usage(7, 1)),
            Turn::text("Meanwhile.").usage(usage(5, 1)),
            Turn::text("Done.").usage(usage(9, 1)),
        ]);
        let asks = crate::agents::tool("again", |cx| async move {
            let request = deepagents_core::model::ModelRequest::new("Meanwhile?");
            let model = cx.context().model().clone();
            let output = cx.context().invoke_model(&model, request).await;
            Ok(output.map_err(deepagents_core::tool::ToolError::fatal)?.message.text().into())
        });
        let agent = builder(model.clone()).name("main").tool(asks).build().unwrap();
        agent.invoke(tracer.observe("Go.")).await.unwrap();
        tracer.shutdown(LONG).await;
        let text = String::from_utf8(file.lock().unwrap().clone()).unwrap();
        let told: Vec<_> = model.requests().iter().filter_map(|request| request.headers.first().cloned()).collect();
        assert_eq!(told.len(), if asked { 2 } else { 0 });
        for (name, value) in told {
            let span = value.split('-').nth(2).unwrap().to_owned();
            assert!(name == "traceparent" && text.contains(&format!(r#""spanId":"{span}""#)), "{value} {text}");
        }
        assert_eq!(text.matches(r#""name":"chat "#).count(), 3, "{text}");
    }
}

/// A model with a server address.
struct Hosted(ScriptedModel);

impl ChatModel for Hosted {
    forward_model!([.0]; name, stream);

    fn server(&self) -> Option<ModelServer> {
        Some(ModelServer::new("models.example", 8443))
    }
}

#[tokio::test]
async fn spans_name_the_agents_purpose_the_server_and_the_seed() {
    let file: Shared<Vec<u8>> = Arc::default();
    let tracer = Tracer::new(ExportConfig::default().file(Memory(file.clone())), TraceOptions::default()).unwrap();
    let mut settings = ModelSettings::default();
    settings.extra.insert("seed".to_owned(), json!(42));
    let model = Hosted(ScriptedModel::new([Turn::text("Done.")]));
    let agent = Agent::builder(model).description("Goes.").settings(settings).build().unwrap();
    agent.invoke(tracer.observe("Go.")).await.unwrap();
    tracer.shutdown(LONG).await;
    let text = String::from_utf8(file.lock().unwrap().clone()).unwrap();
    for told in [
        r#"{"key":"server.address","value":{"stringValue":"models.example"}}"#,
        r#"{"key":"server.port","value":{"intValue":"8443"}}"#,
        r#"{"key":"gen_ai.agent.description","value":{"stringValue":"Goes."}}"#,
        r#"{"key":"gen_ai.request.seed","value":{"intValue":"42"}}"#,
    ] {
        assert_eq!(text.matches(told).count(), 1, "{told}: {text}");
    }
}

#[tokio::test]
async fn a_zero_export_timeout_means_no_limit() {
    let receiver = Receiver::start(false, Behaviour::FailsOnce(503)).await;
    let config = ExportConfig { timeout: Duration::ZERO, metrics: None, ..config(Protocol::HttpProtobuf, &receiver) };
    let tracer = Tracer::new(config, TraceOptions::default()).unwrap();
    answers(1).invoke(tracer.observe("Go.")).await.unwrap();
    let report = tracer.shutdown(LONG).await;
    assert_eq!((report.exported, report.dropped), (2, 0), "{report:?}");
}

/// The attributes that a run leaves in a file: span name, attribute name, value.
async fn traced(model: ScriptedModel, options: TraceOptions) -> Vec<(String, String, String)> {
    let file: Shared<Vec<u8>> = Arc::default();
    let tracer = Tracer::new(ExportConfig::default().file(Memory(file.clone())), options).unwrap();
    let agent = builder(model).name("main").tool(crate::agents::tool("save", |_| async { Ok("Saved.".into()) }));
    let _ = agent.build().unwrap().invoke(tracer.observe("The task.")).await;
    tracer.shutdown(LONG).await;
    let text = String::from_utf8(file.lock().unwrap().clone()).unwrap();
    let requests = text.lines().map(|line| serde_json::from_str::<ExportTraceServiceRequest>(line).unwrap());
    let spans = requests.flat_map(|mut request| request.resource_spans.remove(0).scope_spans.remove(0).spans);
    let attributes = spans.flat_map(|span| span.attributes.into_iter().map(move |pair| (span.name.clone(), pair)));
    let texts = attributes.filter_map(|(span, pair)| match pair.value?.value? {
        Value::StringValue(text) => Some((span, pair.key, text)),
        _ => None,
    });
    texts.collect()
}

fn of<'a>(traced: &'a [(String, String, String)], span: &str, attribute: &str) -> Vec<&'a str> {
    let those = traced.iter().filter(|(name, key, _)| name.starts_with(span) && key == attribute);
    those.map(|(.., text)| text.as_str()).collect()
}

#[tokio::test]
async fn a_failed_request_has_its_error_type_and_an_answer_its_id_and_model() {
    for error in [ModelError::invalid("no such model"), ModelError::transport("the cable is cut")] {
        let kind = error.kind();
        let spans = traced(ScriptedModel::new([Turn::error(error)]), TraceOptions::default()).await;
        assert_eq!(of(&spans, "chat ", "error.type"), [kind], "{spans:?}");
    }
    let mut message = AssistantMessage::new(vec![Block::text("Done.")]);
    message.id = "resp_7".to_owned();
    let name = |name: &str| name.to_owned();
    message.origin = Some(Origin { api: name("script"), provider: name("scripted"), model: name("other") });
    let answer = ModelEvent::Finished(Box::new(ModelOutput::new(message)));
    let spans = traced(ScriptedModel::new([Turn::raw([Ok(answer)])]), TraceOptions::default()).await;
    assert_eq!(of(&spans, "chat ", "gen_ai.response.id"), ["resp_7"]);
    assert_eq!(of(&spans, "chat ", "gen_ai.response.model"), ["other"]);
    assert!(of(&spans, "chat ", "gen_ai.tool.definitions").is_empty(), "what is said of tools is content");
}

#[tokio::test]
async fn overlong_content_stays_json_and_leaves_room_for_the_task() {
    let long = "s3cr3t".repeat(30_000);
    let script = || {
        [
            Turn::call("save", json!({"path": "/a.txt", "content": long})),
            Turn::call("save", json!({"path": "/b.txt", "content": long})),
            Turn::text("Done."),
        ]
    };
    for redacts in [false, true] {
        let content = Content::default();
        // Redaction must run before truncation, which could cut the secret.
        let redact = |_: &'static str, text: String| Some(text.replace("s3cr3t", "[redacted]"));
        let content = if redacts { content.redact(redact) } else { content };
        let mut options = TraceOptions::default();
        options.content = Some(content);
        let spans = traced(ScriptedModel::new(script()), options).await;
        let read = |span: &str, name: &str| -> Vec<serde_json::Value> {
            let all = of(&spans, span, name);
            assert!(all.iter().all(|text| text.len() <= 64 * 1024), "{name}");
            all.into_iter().map(|text| serde_json::from_str(text).expect("JSON")).collect()
        };
        assert_eq!(read("execute_tool", "gen_ai.tool.call.arguments")[0]["path"], "/a.txt");
        let answers = read("chat ", "gen_ai.output.messages");
        assert_eq!(answers[1][0]["parts"][0]["arguments"]["path"], "/b.txt", "{:?}", answers[1]);
        let asked = read("chat ", "gen_ai.input.messages");
        let last = asked.last().unwrap().as_array().unwrap();
        assert_eq!(last.len(), 5);
        assert_eq!(last[0]["parts"][0]["content"], "The task.");
        let tools = read("chat ", "gen_ai.tool.definitions");
        assert_eq!((&tools[0][0]["name"], &tools[0][0]["type"]), (&json!("save"), &json!("function")));
        assert!(!redacts || !format!("{spans:?}").contains("s3cr3"), "what is cut is redacted before");
    }
}

#[test]
fn a_missing_runtime_is_an_error_not_a_panic() {
    assert!(Tracer::new(ExportConfig::default(), TraceOptions::default()).is_err());
}

/// A file in memory.
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
