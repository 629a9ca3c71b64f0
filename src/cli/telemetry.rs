//! Traces to a collector over OTLP (HTTP with protobuf), in builds with the feature `otlp`; `OTEL_*` variables say where.

/// What exports traces as long as it lives; what is left goes out when it is dropped.
#[must_use]
pub(super) struct Telemetry {
    #[cfg(feature = "otlp")]
    provider: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

/// Begins to export, where the environment names a collector.
#[cfg(not(feature = "otlp"))]
pub(super) fn start() -> Telemetry {
    Telemetry {}
}

#[cfg(feature = "otlp")]
pub(super) use export::start;

#[cfg(feature = "otlp")]
mod export {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::filter::filter_fn;
    use tracing_subscriber::layer::{Layer, SubscriberExt};

    use super::Telemetry;
    use crate::llm::client_builder;
    use crate::process::trace::TARGET;

    /// The name of the program in traces, where no variable gives another.
    const SERVICE: &str = "agent-run";
    /// The largest answer of a collector that is read, in bytes.
    const ANSWER_BYTES_MAX: usize = 1024 * 1024;

    pub(in super::super) fn start() -> Telemetry {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let is_named = variable("OTEL_TRACES_EXPORTER").map_or_else(
            || variable("OTEL_EXPORTER_OTLP_ENDPOINT").or(variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")).is_some(),
            |exporter| exporter == "otlp",
        );
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if !is_named || is_off {
            return Telemetry { provider: None };
        }
        match provider(variable("OTEL_SERVICE_NAME").is_some()) {
            Ok(provider) => {
                let ours = filter_fn(|metadata| metadata.target() == TARGET);
                let layer = tracing_opentelemetry::layer()
                    .with_tracer(provider.tracer(SERVICE))
                    .with_location(false)
                    .with_threads(false)
                    .with_tracked_inactivity(false)
                    .with_filter(ours);
                // Another subscriber is there only where the program is part of another; then that one hears.
                let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
                Telemetry { provider: Some(provider) }
            }
            Err(why) => {
                eprintln!("no traces are sent: {why}");
                Telemetry { provider: None }
            }
        }
    }

    fn provider(is_named: bool) -> Result<SdkTracerProvider, String> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new()?)
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(|error| error.to_string())?;
        let resource = Resource::builder();
        let has_service = is_named
            || std::env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|attributes| attributes.contains("service.name="));
        let resource = if has_service { resource } else { resource.with_service_name(SERVICE) };
        Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build())
    }

    /// The HTTP client of everything else, on a runtime of its own: spans are sent by a thread that has none.
    #[derive(Debug)]
    struct Client {
        http: reqwest::Client,
        runtime: tokio::runtime::Runtime,
    }

    impl Client {
        fn new() -> Result<Client, String> {
            let http = client_builder().build().map_err(|error| error.to_string())?;
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            Ok(Client { http, runtime: runtime.map_err(|error| error.to_string())? })
        }
    }

    #[async_trait::async_trait]
    impl HttpClient for Client {
        async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
            let http = self.http.clone();
            let sent = self.runtime.spawn(async move {
                let (head, body) = request.into_parts();
                let url = head.uri.to_string();
                let mut answer = http.request(head.method, url).headers(head.headers).body(body).send().await?;
                let status = answer.status();
                let mut bytes = Vec::new();
                while let Some(chunk) = answer.chunk().await? {
                    if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                        break;
                    }
                    bytes.extend_from_slice(&chunk);
                }
                Ok::<_, reqwest::Error>((status, bytes))
            });
            let (status, bytes) = sent.await??;
            Ok(Response::builder().status(status).body(Bytes::from(bytes))?)
        }
    }

    impl Drop for Telemetry {
        fn drop(&mut self) {
            if let Some(provider) = &self.provider {
                // A collector that is not there costs the traces, not the run.
                let _ = provider.shutdown();
            }
        }
    }
}
