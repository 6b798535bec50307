"""Reports of a run. `BUILT_IN` maps the name of each report to its module and attribute."""

from __future__ import annotations

from harness.plugins import PluginGroup
from harness.results import Report

BUILT_IN = {
    "archive": "harness.reports.run_changes:ARCHIVE",
    "badge": "harness.reports.published_reports:BADGE",
    "features": "harness.reports.published_reports:FEATURES_REPORT",
    "github": "harness.reports.ci_reports:GITHUB",
    "gitlab": "harness.reports.ci_reports:GITLAB",
    "html": "harness.reports.html:REPORT",
    "json": "harness.reports.run_changes:JSON_REPORT",
    "junit": "harness.reports.ci_reports:JUNIT",
    "markdown": "harness.reports.markdown_report:REPORT",
    "table": "harness.reports.published_reports:REPORT",
    "terminal": "harness.reports.terminal:REPORT",
    "worst": "harness.reports.finding_causes:REPORT",
    "xunit": "harness.reports.ci_reports:XUNIT",
}

REPORTS: PluginGroup[Report] = PluginGroup("report", "harness.reports", "REPORT", "harness.results:Report")
