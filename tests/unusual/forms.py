"""Every equal form."""

from __future__ import annotations

from tests.unusual import choices, ids, requests, results, texts
from tests.unusual.form import Form

FORMS: tuple[Form, ...] = (*choices.FORMS, *results.FORMS, *ids.FORMS, *texts.FORMS, *requests.FORMS)
