"""`/static/…`: the files that pages of Parley need, found in the apps, with no step before the first run."""

import mimetypes
from pathlib import Path

from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import http_date
from django.views.static import was_modified_since

from foundation.rest.plain import PlainView


class AssetView(PlainView):
    """Serves what Django's finders know, and nothing outside of what they know."""

    def get(self, request: HttpRequest, path: str) -> HttpResponse:
        file = _find(path)
        changed = file.stat().st_mtime
        if not was_modified_since(request.headers.get("If-Modified-Since"), changed):
            return HttpResponseNotModified()
        content_type, encoding = mimetypes.guess_type(file.name)
        response = HttpResponse(file.read_bytes(), content_type=content_type or "application/octet-stream")
        response["Last-Modified"] = http_date(changed)
        # Kept, and asked about at each use: modules of two versions side by side would be worse than a short answer.
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
