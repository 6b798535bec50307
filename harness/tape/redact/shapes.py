"""What is a key or an account by its shape alone, whoever it belongs to: each provider's has its length and alphabet.

Strict on purpose. `sk-rooms-2024-autumn-conference` and `org-babelexecute4python5session` are words; what a provider
issued has exactly so many characters, and is random: it has many different ones. The lengths are those of the rules of
gitleaks (https://github.com/gitleaks/gitleaks, `cmd/generate/config/rules/`) and trufflehog
(https://github.com/trufflesecurity/trufflehog, `pkg/detectors/`), both as read on 2026-11-22, unless a line says more.
"""

from __future__ import annotations

import re

_SHAPES = re.compile(
    rb"""(?<![A-Za-z0-9_-])(?:
        sk-ant-[a-z]{3,5}[0-9]{2}-[A-Za-z0-9_-]{93}AA           # Anthropic; gitleaks, anthropic.go: api03, admin01
        | sk-(?:(?:proj|svcacct|service|admin)-)?[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,}
                                                                # OpenAI, base64 of its name within; openai.go of both
        | sk-(?:[A-Za-z0-9]{48}|[0-9a-f]{32}|or-v1-[0-9a-f]{64})
                                                                # those that copy it: Moonshot, DeepSeek, OpenRouter
        | (?:org-|proj_)(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{24}
                                                                # OpenAI's accounts: 24 of both cases in its headers
        | AIza[A-Za-z0-9_-]{35}                                 # Google; gitleaks, gcp.go
        | AQ\.Ab[A-Za-z0-9_-]{48}                               # Google, bound to an account: 53 characters in all
        | ya29\.[A-Za-z0-9_-]{20,}                              # Google, OAuth 2.0 access token: no fixed length
        | (?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}                   # AWS; gitleaks, aws.go
        | ABSK[A-Za-z0-9+/]{109,269}={0,2}                      # AWS, Bedrock; the same
        | xai-[A-Za-z0-9_]{80}                                  # xAI; trufflehog, xai.go
        | gsk_[A-Za-z0-9]{52}                                   # Groq; trufflehog, groq.go
        | hf_[A-Za-z]{34}                                       # Hugging Face; gitleaks, huggingface.go
        | pplx-[A-Za-z0-9]{48}                                  # Perplexity; gitleaks, perplexity.go
        | gh[pousr]_[A-Za-z0-9]{36} | github_pat_[A-Za-z0-9_]{82}
                                                                # GitHub, what tools answer with; gitleaks, github.go
    )(?![A-Za-z0-9_-])""",
    re.VERBOSE,
)

_RANDOM = 24
"""Characters at its end by which one is told from words."""

_VARIETY = 8
"""How many of them differ at least: `sk-xxxxxxxx…` stands for a key in a document."""

_KINDS = (re.compile(rb"[a-z]"), re.compile(rb"[A-Z]"), re.compile(rb"[0-9]"))


def shapes(text: bytes) -> list[tuple[int, int]]:
    """Where keys and accounts stand in a text without escapes."""
    return [match.span() for match in _SHAPES.finditer(text) if _is_random(match[0])]


def _is_random(found: bytes) -> bool:
    end = found[-_RANDOM:]
    kinds = sum(kind.search(end) is not None for kind in _KINDS)
    # AWS ends those of its documents so.
    return len(set(end)) >= _VARIETY and kinds > 1 and not found.endswith(b"EXAMPLE")
