"""Every path Parley answers."""

from django.urls import URLPattern, URLResolver, path

from config.http.health import LiveView, MetricsView, ReadyView
from config.wiring import wiring

parts = wiring()

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", LiveView.as_view()),
    path("readyz", ReadyView.as_view(probes=parts.probes)),
    path("metrics", MetricsView.as_view()),
]

handler400 = "config.http.problems.bad_request"
handler403 = "config.http.problems.forbidden"
handler404 = "config.http.problems.not_found"
handler500 = "config.http.problems.server_error"
