"""The page that a run leaves behind: curves, numbers, samples, settings, in one file that opens anywhere."""

from octavo.report.data import Headline, ReportData, Sample
from octavo.report.page import write_report

__all__ = ["Headline", "ReportData", "Sample", "write_report"]
