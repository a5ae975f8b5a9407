"""The tables of the languages that have an official grammar."""

from cortex.toolsets.code.indexing.languages import (
    Language,
    Rule,
    data,
    functions,
    plain,
    types,
)

_JS_RULES = {
    **types("class_declaration", "class"),
    **functions("function_declaration generator_function_declaration"),
    **functions("method_definition", "method"),
    **data("lexical_declaration variable_declaration", name="variable_declarator.name"),
    **data("field_definition", name="property"),
    **data("assignment_expression", "variable", "left"),
    **plain("wrap", "export_statement expression_statement"),
    **plain("into", "class_body statement_block"),
    **plain("import", "import_statement"),
}
_JS_VALUES = {
    **functions("arrow_function function_expression generator_function"),
    **types("class", "class"),
}
_TS_RULES = {
    **_JS_RULES,
    **types("abstract_class_declaration", "class"),
    **types("interface_declaration"),
    **types("type_alias_declaration", "type"),
    **types("enum_declaration"),
    **types("internal_module module", "namespace"),
    **functions("function_signature"),
    **data("public_field_definition"),
    **functions("abstract_method_signature method_signature", "method"),
    **plain("wrap", "ambient_declaration"),
}
_ELIXIR_NOTES = (
    "moduledoc doc typedoc spec impl type typep opaque callback macrocallback behaviour"
    " derive enforce_keys deprecated since tag describetag moduletag"
).split()

PYTHON = Language(
    name="python",
    extensions=(".py", ".pyi", ".pyw"),
    mark="#",
    leads=("#",),
    blocks=(),
    grammar="tree_sitter_python:language",
    rules={
        **types("class_definition"),
        **types("type_alias_statement", "type", "left"),
        **functions("function_definition"),
        **data("assignment", "variable", "left"),
        **plain("wrap", "decorated_definition expression_statement"),
        **plain("into", "block"),
        **plain("import", "import_statement import_from_statement future_import_statement"),
    },
)
TYPESCRIPT = Language(
    name="typescript",
    extensions=(".ts", ".mts", ".cts"),
    leads=("//", "@"),
    grammar="tree_sitter_typescript:language_typescript",
    rules=_TS_RULES,
    values=_JS_VALUES,
)
TSX = Language(
    name="typescript",
    extensions=(".tsx",),
    leads=("//", "@"),
    grammar="tree_sitter_typescript:language_tsx",
    rules=_TS_RULES,
    values=_JS_VALUES,
)
JAVASCRIPT = Language(
    name="javascript",
    extensions=(".js", ".jsx", ".mjs", ".cjs"),
    leads=("//", "@"),
    grammar="tree_sitter_javascript:language",
    rules=_JS_RULES,
    values=_JS_VALUES,
)
GO = Language(
    name="go",
    extensions=(".go",),
    grammar="tree_sitter_go:language",
    rules={
        **types("type_declaration", "type", "type_spec.name"),
        **functions("function_declaration"),
        **functions("method_declaration", "method"),
        **data("const_declaration", name="const_spec.name"),
        **data("var_declaration", "variable", "var_spec.name"),
        **plain("import", "import_spec"),
        **plain("into", "import_declaration import_spec_list"),
        "package_clause": Rule("package", name="package_identifier"),
    },
    receivers={"method_declaration": "receiver"},
)
RUST = Language(
    name="rust",
    extensions=(".rs",),
    leads=("//", "#["),
    grammar="tree_sitter_rust:language",
    rules={
        **types("struct_item enum_item trait_item union_item type_item"),
        **types("impl_item", "impl", "type"),
        **types("mod_item", "module"),
        **functions("function_item function_signature_item"),
        **functions("macro_definition", "macro"),
        **data("const_item static_item"),
        **plain("into", "declaration_list foreign_mod_item"),
        **plain("import", "use_declaration extern_crate_declaration"),
    },
)
JAVA = Language(
    name="java",
    extensions=(".java",),
    leads=("//", "@"),
    grammar="tree_sitter_java:language",
    rules={
        **types("class_declaration interface_declaration enum_declaration record_declaration"),
        **types("annotation_type_declaration"),
        **functions("method_declaration", "method"),
        **functions("constructor_declaration compact_constructor_declaration", "constructor"),
        **data("field_declaration constant_declaration", name="variable_declarator.name"),
        **plain("into", "class_body interface_body enum_body enum_body_declarations"),
        **plain("import", "import_declaration"),
        "package_declaration": Rule("package", name="scoped_identifier"),
    },
)
KOTLIN = Language(
    name="kotlin",
    extensions=(".kt", ".kts"),
    leads=("//", "@"),
    grammar="tree_sitter_kotlin:language",
    rules={
        **types("class_declaration", "class"),
        **types("object_declaration", "object"),
        **types("companion_object", "companion"),
        **types("type_alias", "type", "type"),
        **functions("function_declaration"),
        **functions("secondary_constructor", "constructor"),
        **data("property_declaration", name="variable_declaration.identifier"),
        **plain("into", "class_body enum_class_body"),
        **plain("import", "import"),
        "package_header": Rule("package", name="qualified_identifier"),
    },
)
_C_RULES = {
    **types("struct_specifier union_specifier enum_specifier"),
    **types("type_definition", "type", "declarator"),
    **functions("function_definition", name="declarator"),
    **functions("preproc_function_def", "macro"),
    **data("declaration", "variable", "declarator"),
    **data("preproc_def", "macro"),
    **plain("into", "preproc_ifdef preproc_if preproc_else preproc_elif preproc_elifdef"),
    **plain("into", "linkage_specification declaration_list field_declaration_list"),
    **plain("import", "preproc_include"),
}
_C_VALUES = functions("function_declarator", "prototype", "declarator")
C = Language(
    name="c",
    extensions=(".c", ".h"),
    grammar="tree_sitter_c:language",
    rules=_C_RULES,
    values=_C_VALUES,
)
CPP = Language(
    name="cpp",
    extensions=(".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".ipp", ".tpp", ".inl", ".cu"),
    leads=("//", "[["),
    grammar="tree_sitter_cpp:language",
    rules={
        **_C_RULES,
        **types("class_specifier"),
        **types("alias_declaration concept_definition", "type"),
        **plain("wrap", "template_declaration"),
        **plain("into", "namespace_definition"),
    },
    values=_C_VALUES,
)
CSHARP = Language(
    name="csharp",
    extensions=(".cs",),
    leads=("//", "["),
    grammar="tree_sitter_c_sharp:language",
    rules={
        **types("class_declaration struct_declaration interface_declaration enum_declaration"),
        **types("record_declaration record_struct_declaration delegate_declaration"),
        **functions("method_declaration operator_declaration", "method"),
        **functions("conversion_operator_declaration indexer_declaration", "method"),
        **functions("constructor_declaration destructor_declaration", "constructor"),
        **functions("property_declaration event_declaration", "property"),
        **functions("local_function_statement"),
        **data("field_declaration", name="variable_declaration.variable_declarator.name"),
        **plain("into", "declaration_list global_statement"),
        **plain("import", "using_directive"),
        "namespace_declaration": Rule("package"),
        "file_scoped_namespace_declaration": Rule("package"),
    },
)
PHP = Language(
    name="php",
    extensions=(".php", ".phtml"),
    leads=("//", "#"),
    grammar="tree_sitter_php:language_php",
    rules={
        **types("class_declaration interface_declaration trait_declaration enum_declaration"),
        **functions("method_declaration", "method"),
        **functions("function_definition"),
        **data("const_declaration", name="const_element.name"),
        **plain("into", "declaration_list enum_declaration_list compound_statement"),
        **plain("import", "namespace_use_declaration"),
        "namespace_definition": Rule("package"),
    },
)
RUBY = Language(
    name="ruby",
    extensions=(".rb", ".rake", ".gemspec", ".ru"),
    filenames=("Rakefile", "Gemfile", "Guardfile", "Vagrantfile"),
    mark="#",
    leads=("#",),
    blocks=(("=begin", "=end"),),
    grammar="tree_sitter_ruby:language",
    rules={
        **types("class module"),
        **functions("method", "method"),
        **functions("singleton_method", "method"),
        **data("assignment", name="left"),
        **plain("into", "body_statement singleton_class"),
        "call require": Rule("import"),
        "call require_relative": Rule("import"),
    },
    keyed={"call": "method"},
)
SWIFT = Language(
    name="swift",
    extensions=(".swift",),
    leads=("//", "@"),
    grammar="tree_sitter_swift:language",
    rules={
        **types("class_declaration", "class"),
        **types("protocol_declaration"),
        **types("typealias_declaration", "type"),
        **functions("function_declaration protocol_function_declaration"),
        **functions("init_declaration", "constructor", "init"),
        **functions("deinit_declaration subscript_declaration", "method"),
        **data("property_declaration"),
        **plain("into", "class_body enum_class_body protocol_body"),
        **plain("import", "import_declaration"),
    },
)
SCALA = Language(
    name="scala",
    extensions=(".scala", ".sc", ".sbt"),
    leads=("//", "@"),
    grammar="tree_sitter_scala:language",
    rules={
        **types("class_definition object_definition trait_definition enum_definition"),
        **types("package_object", "object"),
        **types("type_definition given_definition"),
        **types("extension_definition", "extension", "parameters"),
        **functions("function_definition function_declaration"),
        **data("val_definition var_definition", name="pattern"),
        **plain("into", "template_body enum_body with_template_body"),
        **plain("import", "import_declaration"),
        "package_clause": Rule("package"),
    },
)
BASH = Language(
    name="bash",
    extensions=(".sh", ".bash", ".zsh", ".ksh", ".bats"),
    filenames=(".bashrc", ".bash_profile", ".profile", ".zshrc"),
    mark="#",
    leads=("#",),
    blocks=(),
    grammar="tree_sitter_bash:language",
    rules={
        **functions("function_definition"),
        **data("variable_assignment", "variable"),
        **data("declaration_command", name="variable_assignment.name"),
        "command source": Rule("import"),
        "command .": Rule("import"),
    },
    keyed={"command": "name"},
)
LUA = Language(
    name="lua",
    extensions=(".lua",),
    mark="--",
    leads=("--",),
    blocks=(("--[[", "]]"),),
    grammar="tree_sitter_lua:language",
    rules={
        **functions("function_declaration"),
        **data("variable_declaration", "variable", "assignment_statement.variable_list"),
        **data("assignment_statement", "variable", "variable_list"),
    },
    values=functions("function_definition"),
)
ELIXIR = Language(
    name="elixir",
    extensions=(".ex", ".exs"),
    mark="#",
    leads=("#", "@doc", "@spec", "@impl", "@deprecated", "@since"),
    blocks=(("@doc", '"""'),),
    grammar="tree_sitter_elixir:language",
    rules={
        "call defmodule": Rule("type", "module", "arguments"),
        "call defprotocol": Rule("type", "protocol", "arguments"),
        "call defimpl": Rule("type", "impl", "arguments"),
        "call defstruct": Rule("data", "struct", "target"),
        "call defexception": Rule("data", "exception", "target"),
        **{
            f"call {word}": Rule("function", kind, "arguments")
            for word, kind in {
                "def": "function",
                "defp": "function",
                "defguard": "guard",
                "defguardp": "guard",
                "defmacro": "macro",
                "defmacrop": "macro",
                "defdelegate": "function",
                "test": "test",
                "describe": "test",
            }.items()
        },
        **{f"call {word}": Rule("import") for word in ("alias", "import", "require", "use")},
        "do_block": Rule("into"),
        # Attributes are constants, but for those that speak about something else.
        "unary_operator": Rule("data", "attribute", "operand.target"),
        **{f"unary_operator {word}": Rule("into") for word in _ELIXIR_NOTES},
    },
    keyed={"call": "target", "unary_operator": "operand.target"},
    has_clauses=True,
)
HASKELL = Language(
    name="haskell",
    extensions=(".hs", ".lhs"),
    mark="--",
    leads=("--",),
    blocks=(("{-", "-}"),),
    grammar="tree_sitter_haskell:language",
    rules={
        **types("data_type", "data"),
        **types("newtype class"),
        **types("type_synomym type_synonym type_family", "type"),
        **types("instance", "instance", "name+patterns"),
        **functions("function signature bind"),
        **plain("into", "declarations imports class_declarations instance_declarations"),
        **plain("import", "import"),
        "header": Rule("package", name="module"),
    },
    has_clauses=True,
)
ZIG = Language(
    name="zig",
    extensions=(".zig", ".zon"),
    grammar="tree_sitter_zig:language",
    rules={
        **functions("function_declaration"),
        **functions("test_declaration", "test", "string.string_content"),
        **data("variable_declaration", name="identifier"),
        **plain("into", "struct_declaration enum_declaration union_declaration"),
    },
    values=types("struct_declaration enum_declaration union_declaration opaque_declaration"),
)

WITH_GRAMMAR = (
    PYTHON,
    TYPESCRIPT,
    TSX,
    JAVASCRIPT,
    GO,
    RUST,
    JAVA,
    KOTLIN,
    C,
    CPP,
    CSHARP,
    PHP,
    RUBY,
    SWIFT,
    SCALA,
    BASH,
    LUA,
    ELIXIR,
    HASKELL,
    ZIG,
)
