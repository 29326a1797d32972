# language.py writes language.json: what Python's jinja2 makes of short templates, with
# the settings of Hugging Face's library transformers.
import json, os
from jinja2.exceptions import TemplateError
from jinja2.sandbox import SandboxedEnvironment

VARIABLES = {
    "n": 7, "f": 2.5, "s": "Héllo, wörld", "t": True, "nothing": None, "l": [3, 1, 2],
    "d": {"b": 1, "a": [1.0, None, "x'y"], "items2": {"k": "v"}},
    "m": [{"role": "user", "n": 2, "f": {"name": "b"}}, {"role": "assistant", "n": 1, "f": {"name": "A"}}, {"role": "user", "n": 3, "f": {"name": "c"}}],
}
SOURCES = [
    # arithmetic
    "{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ -2 ** 2 }} {{ 2 ** -1 }}",
    "{{ 1.0 }} {{ 1e20 }} {{ 1.5e-7 }} {{ 0.1 + 0.2 }} {{ f * 2 }} {{ 10 / 5 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
    "{{ 1 + true }} {{ 'a' * 3 }} {{ ([1] * 2) | string }} {{ ([1] + [2]) | string }} {{ 'a' + 'b' ~ 1 ~ none ~ true }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ 'a' != 'b' }} {{ [1, 2] == [1, 2] }} {{ none == false }}",
    "{{ 1 in l }} {{ 9 not in l }} {{ 'ell' in 'hello' }} {{ 'b' in d }} {{ not 1 in l }}",
    "{{ t and n }} {{ nothing or 'x' }} {{ not nothing }} {{ 0 or '' or 'z' }} {{ (t and nothing) is none }}",
    "{{ 'a' if t else 'b' }}{{ 'c' if nothing }}{{ 'd' if nothing else 'e' if t else 'f' }}{{ (1 if t else 2) + 3 }}",
    "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ 1 < 'a' }}", "{{ 5 % 0 }}", "{{ [1][5] is defined }}", "{{ l[-1] }}{{ l[0] }}{{ s[1] }}{{ s[-1] }}",
    # slices
    "{{ s[1:3] }} {{ s[:-2] }} {{ s[::-1] }} {{ s[::2] }} {{ s[5:1:-1] }} {{ s[100:] }} {{ s[-3:] }}",
    "{{ l[1:] | string }} {{ l[::-1] | string }} {{ l[:100] | string }} {{ l[2:0:-1] | string }} {{ l[-2:] | string }} {{ l[:-1] | string }}",
    # texts
    "{{ 'a\\nb\\t\\\"c\\\\' }} {{ '\\u00e9\\x41' }} {{ 'a' 'b' }} {{ \"it's\" }}",
    "{{ [1, 2.0, 'x', \"it's\", none, true, {'k': [1]}] | string }} {{ (1,) | string }} {{ (1, 2) | string }} {{ {} | string }}",
    "{{ ' a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'abc'.rstrip('bc') }}|{{ '\\n a\\n'.lstrip('\\n') }}",
    "{{ 'a,b,,c'.split(',') | string }} {{ ' a  b '.split() | string }} {{ 'a,b,c'.split(',', 1) | string }} {{ 'a,b,c'.rsplit(',', 1) | string }} {{ 'a\\nb'.splitlines() | string }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.replace('b', 'X') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc'.find('c') }} {{ 'abcb'.count('b') }}",
    "{{ 'hello world'.title() }} {{ 'hELLO'.capitalize() }} {{ 'a'.upper() }} {{ 'A'.lower() }} {{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ 'AB'.isupper() }} {{ ', '.join(['a', 'b']) }}",
    "{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format(1, 2) }} {{ '{x}'.format(x=3) }} {{ '{:>5}|{:<5}|{:05d}|{:.2f}'.format('a', 'b', 42, 1.234) }} {{ '{{}}'.format() }}",
    "{{ '%s-%d' % ('a', 3) }} {{ '%05.1f' % 2.25 }} {{ '%s' % 'x' }} {{ '%%' % () }} {{ 'a: %s' | format('b') }}",
    # filters
    "{{ s | upper }} {{ s | lower }} {{ s | length }} {{ l | length }} {{ d | length }} {{ s | title }} {{ 'aBC' | capitalize }} {{ ' x ' | trim }}|{{ 'xax' | trim('x') }}",
    "{{ missing | default('x') }} {{ nothing | default('x') is none }} {{ nothing | default('x', true) }} {{ '' | default('y', boolean=true) }} {{ n | default(1) }} {{ missing | d(2) }}",
    "{{ l | join(', ') }} {{ l | join }} {{ m | join('-', attribute='role') }} {{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }}",
    "{{ l | sort | string }} {{ l | sort(reverse=true) | string }} {{ ['b', 'A', 'c'] | sort | string }} {{ ['b', 'A'] | sort(case_sensitive=true) | string }} {{ m | sort(attribute='n') | map(attribute='n') | list | string }}",
    "{{ l | first }} {{ l | last }} {{ l | min }} {{ l | max }} {{ l | sum }} {{ m | sum(attribute='n') }} {{ l | reverse | list | string }} {{ 'abc' | reverse }} {{ [1, 1.0, 'a', 'A'] | unique | list | string }}",
    "{{ d | items | list | string }} {{ d.items() | list | string }} {{ d.keys() | list | string }} {{ d.values() | list | string }} {{ d | dictsort | string }} {{ d.get('b') }} {{ d.get('z', 5) }} {{ d.get('z') is none }}",
    "{{ d | tojson }} {{ d | tojson(indent=2) }} {{ s | tojson }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ [] | tojson(indent=2) }} {{ {} | tojson }} {{ '\\u2028<b>' | tojson }} {{ 1.0 | tojson }} {{ 1e20 | tojson }}",
    "{{ m | selectattr('role', 'equalto', 'user') | list | length }} {{ m | rejectattr('role', '==', 'user') | map(attribute='role') | join }} {{ m | selectattr('n', 'gt', 1) | list | length }} {{ m | map(attribute='f.name') | join(',') }} {{ m | selectattr('missing') | list | length }} {{ m | selectattr('role', 'in', ['user']) | list | length }}",
    "{{ l | select('odd') | list | string }} {{ l | reject('gt', 1) | list | string }} {{ ['a', 'b'] | map('upper') | join }} {{ [none, 1] | select | list | string }} {{ m | map(attribute='zz', default='q') | join }}",
    "{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(3) }} {{ 3.9 | int }} {{ '2.5' | float }} {{ -3 | abs }} {{ 2.567 | round(1) }} {{ 2.5 | round }} {{ 2.1 | round(0, 'ceil') }} {{ '1' | string }} {{ 5 | string | length }}",
    "{{ 'a\\nb\\n\\nc' | indent }} {{ 'a\\nb' | indent(2, true) }} {{ 'a\\nb' | indent('> ') }} {{ 'a\\n\\nb' | indent(2, blank=true) }}",
    "{{ '<a href=\"x\">&' | e }} {{ '<b>' | safe }} {{ 'a b c' | wordcount }} {{ 'abc' | list | string }}",
    "{{ 'x' | nofilter }}", "{{ 'x' is notest }}", "{{ none | length }}",
    # tests
    "{{ n is defined }} {{ zz is defined }} {{ zz is undefined }} {{ nothing is none }} {{ n is not none }} {{ s is string }} {{ n is number }} {{ f is number }} {{ d is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ d is sequence }} {{ t is boolean }} {{ t is true }} {{ t is false }} {{ n is integer }} {{ f is float }} {{ n is odd }} {{ n is even }} {{ 6 is divisibleby 3 }} {{ n is in [7] }} {{ n is eq 7 }} {{ 'a' is lower }} {{ 1 is sameas 1 }}",
    "{{ not n is defined }} {{ (n is defined) and (zz is not defined) }} {{ 'x' if n is odd and f is float else 'y' }} {{ d.zz is defined }} {{ d.zz.yy is defined }}",
    "{{ d.b }}{{ d['b'] }}{{ d.items2.k }}{{ d['items2']['k'] }}[{{ d.zz }}][{{ n.zz }}][{{ s.zz }}][{{ nothing.zz }}]", "{{ zz.yy }}", "{{ zz }}|{{ zz | length }}|{% for x in zz %}x{% endfor %}|", "{{ zz() }}", "{{ n() }}",
    # statements
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% endfor %}{% for x in l if x > 9 %}{% else %}e{% endfor %}",
    "{% for k, v in d.items() %}{{ k }};{% endfor %}{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'abc' %}{{ c }}.{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}{% for x in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = 2 %}{% endfor %}{{ x }}{% if t %}{% set x = 3 %}{% endif %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c | string }}",
    "{% set ns = namespace(x=0, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.zz is defined }}", "{% set d.x = 1 %}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]{% set y | upper %}abc{% endset %}{{ y }}{% filter upper | replace('B', 'X') %}abc{% endfilter %}",
    "{% macro f(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, c=3) }}{{ f(a='x', b='y') }}{{ f() }}",
    "{% macro f(x) %}{{ x }}{% if x > 0 %}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}{% macro g() %}{{ n }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ g() }}",
    "{% macro wrap(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call wrap('b') %}in{{ n }}{% endcall %}{% macro each(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) each([1, 2]) %}[{{ x }}]{% endcall %}",
    "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% for x in l %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% endfor %}",
    "{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{{ range(5) | list | string }}{{ range(1, 4) | list | string }}{{ range(5, 0, -2) | list | string }}{{ dict(a=1) | string }}",
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}{% if nothing %}{% elif 0 %}{% else %}z{% endif %}", "{% for x in n %}{% endfor %}", "{% for a, b in l %}{% endfor %}",
    "{% set l2 = [] %}{% set _ = l2.append(1) %}{{ l2 | string }}{% set _ = l2.insert(0, 5) %}{{ l2 | string }}{{ l2.pop() }}{{ l2.pop(0) }}{{ l2 | string }}{{ l.index(2) }}{{ l.count(1) }}",
    # white space
    "  {% if t %}\n  a\n  {% endif %}\n  b\n", "a\n  {{ n }}\n  {# c #}\nb", "a  {%- if t -%}  b  {%- endif -%}  c", "a\n{%+ if t %}\nb\n{% endif +%}\nc", "x {{- n -}} y", "x\n\n", "x\n", "a {# c -#} b", "  {#- c #} b",
    "{% raw %}{{ n }}{% if %}{% endraw %}\nz", "{%raw%}{%}", "{% raw %}{%}{%-{% endraw %}z", "\n\n{% if t %}\n\na{% endif %}", "a\n    {% for x in l %}\n    {{ x }}\n    {% endfor %}\nz", "{{ '}}' }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}", "  \t{% if t %}x{% endif %}  \n  {% if t %}y{% endif %}",
    "{{ n\n}}{%\nif t\n%}x{% endif\n%}", "a{% if t %}\n{% endif %}b", "  {{ n }}  {% if t %}  x  {% endif %}  \n", "{%- for x in l %}\n{{ x }}\n{%- endfor %}", "\r\na\r\n{% if t %}\r\nb\r\n{% endif %}",
    # errors
    "{% for x %}", "{{ 'a }}", "{{ 1 + }}", "{% if t %}", "{% endif %}", "{% nothing %}", "{{ (1 }}", "{# a", "{{ a b }}", "{% set %}", "{{ {1: } }}", "{% break %}", "{{ raise_exception('no') }}",
]

def raise_exception(why):
    raise TemplateError(why)

env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
    x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
env.globals["raise_exception"] = raise_exception
cases = []
for source in SOURCES:
    try:
        text = env.from_string(source).render(**json.loads(json.dumps(VARIABLES)))
    except Exception:
        text = None
    cases.append({"source": source, "text": text})
with open(os.path.join(os.path.dirname(__file__), "language.json"), "w") as out:
    json.dump({"variables": VARIABLES, "cases": cases}, out, ensure_ascii=False, indent=1)
    out.write("\n")
