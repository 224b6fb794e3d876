"""What a case of a family must look like: pydantic models, so that any other JSON fails with the field's name.

A field that is null is one that is left out: peers leave out what has no value. Fields beyond the model are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from verdicts import Adaptor, Case, Verdict, wanted

_LATEST = 253_402_300_799
"""The end of the year 9999: later moments cannot be written."""
_SHOWN = 3


def _no_other_type(value: Any) -> Any:
    """Texts and booleans are not numbers, whatever they could be read as."""
    if isinstance(value, str | bool):
        raise ValueError(f"a number is expected, not {value!r:.40}")
    return value


Whole = Annotated[int, BeforeValidator(_no_other_type)]
Amount = Annotated[int, BeforeValidator(_no_other_type), Field(ge=-(2**63), lt=2**63)]
"""Milli-cores, bytes or percent: what a 64-bit integer holds."""
Real = Annotated[int | float, BeforeValidator(_no_other_type), Field(ge=-1e30, le=1e30)]
Moment = Annotated[float, BeforeValidator(_no_other_type), Field(allow_inf_nan=False, ge=0, le=_LATEST)]
Seconds = Annotated[float, BeforeValidator(_no_other_type), Field(allow_inf_nan=False, ge=0, le=_LATEST // 4)]
"""Since 1970, or since the base of a case: two of them and a half-life are still a moment that can be written."""
Age = Annotated[float, BeforeValidator(_no_other_type), Field(allow_inf_nan=False, ge=0, le=10**11)]
"""Seconds."""
Measured = Annotated[int | float, BeforeValidator(_no_other_type), Field(ge=0, le=1e18)]
"""What is used or granted: never below nothing."""
Percent = Annotated[int | float, BeforeValidator(_no_other_type), Field(ge=0, le=100)]
Text = Annotated[str, Field(max_length=10_000)]


_MOST = 100_000
"""Of what a case only counts: so many are made one by one."""


def bounded(count: Any) -> int:
    """The count, which is refused where making so many would take for ever."""
    if not isinstance(count, int) or count > _MOST:
        raise ValueError(f"a count of at most {_MOST} is expected, not {count!r:.40}")
    return count


class Shape(BaseModel):
    """Base: unknown fields are ignored, numbers are finite."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


def read_as(shape: Any, adaptor: Adaptor, *, may_be_left_out: bool = False) -> Adaptor:
    """The adaptor for cases whose `in` has this shape; any other one fails with the place and what is expected.

    `may_be_left_out`: a case that asks for what the vectors do not hold is not covered, and told as such."""
    reader: TypeAdapter[Any] = TypeAdapter(shape)

    def judge_shaped(case: Case) -> Verdict:
        try:
            given = reader.validate_python(without_nulls(case.get("in")))
        except ValidationError as error:
            return Verdict("FAIL", f"this case cannot be read: {said(error)}")
        plain = given.model_dump(exclude_unset=True) if isinstance(given, BaseModel) else given
        try:
            verdict = adaptor({**case, "in": plain})
        except ValidationError as error:
            return Verdict("FAIL", f"the answer is beyond what a decision record holds: {said(error)}")
        if verdict.word == "not covered" and not may_be_left_out:
            return Verdict("FAIL", f"this case asks for something that is not known: {verdict.why}")
        return verdict

    return judge_shaped


def answers_as(shape: Any, adaptor: Adaptor) -> Adaptor:
    """The adaptor for cases whose wanted answers (`want`, `out`, `expect` and `correct`) have this shape. A sentence
    that says what is correct is no answer: the peer's is asked for then."""
    reader: TypeAdapter[Any] = TypeAdapter(shape)

    def judge_shaped(case: Case) -> Verdict:
        if isinstance(case.get("correct"), str):
            case = {name: value for name, value in case.items() if name != "correct"}
        names = [name for name in ("want", "out", "expect") if name in case][:1]
        if not names:
            return Verdict("FAIL", "this case cannot be read: it has no answer (want, out or expect)")
        answers = {names[0]: case[names[0]], "correct": wanted(case)}
        for name, answer in answers.items():
            try:
                reader.validate_python(answer)
            except ValidationError as error:
                return Verdict("FAIL", f"this case cannot be read: {name}.{said(error)}")
        return adaptor(case)

    return judge_shaped


def said(error: ValidationError) -> str:
    """The first few fields that are wrong, and what each must be."""
    wrong = error.errors(include_url=False, include_context=False)
    parts = [f"{'.'.join(map(str, one['loc'])) or 'in'}: {one['msg']}" for one in wrong[:_SHOWN]]
    return "; ".join(parts) + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else "")


def without_nulls(value: Any) -> Any:
    """The same without the fields of objects that are null; entries of lists stay."""
    if isinstance(value, Mapping):
        return {str(key): without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
