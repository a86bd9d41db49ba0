"""`/static/…`: the static files of the apps, served without a `collectstatic` step."""

import mimetypes
from pathlib import Path

from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import http_date
from django.views.static import was_modified_since

from foundation.rest.plain import PlainView


class AssetView(PlainView):
    """Serves only files that Django's staticfiles finders know."""

    def get(self, request: HttpRequest, path: str) -> HttpResponse:
        file = _find(path)
        changed = file.stat().st_mtime
        if not was_modified_since(request.headers.get("If-Modified-Since"), changed):
            return HttpResponseNotModified()
        content_type, encoding = mimetypes.guess_type(file.name)
        response = HttpResponse(file.read_bytes(), content_type=content_type or "application/octet-stream")
        response["Last-Modified"] = http_date(changed)
        # Browsers revalidate on every use, so that a page never mixes modules of two versions.
        response["Cache-Control"] = "public, no-cache"
        if encoding:
            response["Content-Encoding"] = encoding
        return response


def _find(path: str) -> Path:
    try:
        found = finders.find(path)
    except SuspiciousFileOperation as error:
        raise Http404 from error
    if not isinstance(found, str) or not Path(found).is_file():
        raise Http404
    return Path(found)
