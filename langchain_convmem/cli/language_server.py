"""`convmem prompts serve`: the findings of `prompts check` in an editor, while one types."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from langchain_convmem.cli.options import command
from langchain_convmem.cli.output import Terminal
from langchain_convmem.cli.prompts import declare_functions, functions_option
from langchain_convmem.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from lsprotocol import types as lsp
    from pygls.lsp.server import LanguageServer
    from pygls.workspace import TextDocument

    from langchain_convmem.prompts import Diagnostic, PromptFile


@command("serve", "convmem prompts serve", "convmem prompts serve --function getDate")
@functions_option
def serve(terminal: Terminal, *, functions: tuple[str, ...]) -> int:
    """Serve an editor with findings.

    Speaks the Language Server Protocol over standard input and output: findings while you type, and
    the names of constants and variables after '{{'. Needs the extra `lsp`.
    """
    if terminal.as_json:
        raise ConfigError("an editor is spoken with in its own protocol; leave out --json")
    make_language_server(list(declare_functions(functions))).start_io()
    return 0


def make_language_server(functions: Collection[str]) -> LanguageServer:
    """Return a server of findings.

    Args:
        functions: Names of the functions that variables may use.

    Raises:
        MissingExtraError: If pygls is not installed.
    """
    try:
        from lsprotocol import types as lsp
        from pygls.lsp.server import LanguageServer
    except ImportError as error:
        raise MissingExtraError.build("the language server of prompt files", "lsp") from error

    server = LanguageServer("convmem-prompts", "1")

    def publish(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        found = _read_prompt(document, functions).diagnostics
        marks = [_make_mark(one, document) for one in found]
        server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, diagnostics=marks, version=document.version)
        )

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def check_opened(params: lsp.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def check_changed(params: lsp.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=["{"]))
    def complete_name(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document = server.workspace.get_text_document(params.text_document.uri)
        return _list_names(document, params.position, functions)

    return server


def _read_prompt(document: TextDocument, functions: Collection[str]) -> PromptFile:
    from langchain_convmem.prompts import PromptFile

    known = declare_functions(functions)
    return PromptFile.parse(document.source, functions=known, name=document.filename or "<text>")


def _make_mark(finding: Diagnostic, document: TextDocument) -> lsp.Diagnostic:
    """Return a finding as an editor shows it: from its place to the end of its line."""
    from lsprotocol import types as lsp

    levels = {
        "error": lsp.DiagnosticSeverity.Error,
        "warning": lsp.DiagnosticSeverity.Warning,
        "info": lsp.DiagnosticSeverity.Information,
    }
    line, source = finding.line - 1, finding.source_line
    count = document.position_codec.client_num_units
    start = lsp.Position(line, count(source[: finding.column - 1]))
    end = lsp.Position(line, max(count(source.rstrip()), start.character))
    return lsp.Diagnostic(
        lsp.Range(start, end), finding.message, severity=levels[finding.level], source="convmem"
    )


def _list_names(
    document: TextDocument, position: lsp.Position, functions: Collection[str]
) -> list[lsp.CompletionItem]:
    """Return the names that may stand in a placeholder, where one is being typed."""
    from lsprotocol import types as lsp

    before = document.lines[position.line] if position.line < len(document.lines) else ""
    at = document.position_codec.position_from_client_units(document.lines, position)
    opened = before[: at.character].rpartition("{{")
    if not opened[1] or "}}" in opened[2]:
        return []
    prompt = _read_prompt(document, functions)
    names = {**dict.fromkeys(prompt.constants, "constant")}
    names |= dict.fromkeys(prompt.variable_definitions, "variable")
    kind = lsp.CompletionItemKind.Variable
    return [lsp.CompletionItem(name, detail=what, kind=kind) for name, what in names.items()]
