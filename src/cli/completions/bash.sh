
# Experiments, stored runs and their cells are listed by the program.
_iotrail_and_candidates() {
    local line=${COMP_LINE:0:COMP_POINT} words cur lines value text
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[-1]-}
    lines=$("$1" __complete "${words[@]:1}" 2>/dev/null)
    local found=() shown=()
    while IFS=$'\t' read -r value text; do
        [[ -n $value ]] || continue
        found+=("$value")
        shown+=("$value${text:+  ($text)}")
    done <<<"$lines"
    if ((${#found[@]} == 0)); then
        _iotrail "$@"
        return
    fi
    # The text before the last character at which bash breaks words is already in the line.
    local breaks=${COMP_WORDBREAKS//[^:=]/} before=
    [[ -n $breaks ]] && before=${cur%"${cur##*[$breaks]}"}
    # A single candidate is inserted, as is each candidate of a menu; several candidates are listed with descriptions.
    if ((${#found[@]} == 1)) || [[ ${COMP_TYPE-} == 37 ]]; then
        COMPREPLY=("${found[@]#"$before"}")
    else
        COMPREPLY=("${shown[@]#"$before"}")
    fi
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _iotrail_and_candidates -o nosort -o bashdefault -o default iotrail
else
    complete -F _iotrail_and_candidates -o bashdefault -o default iotrail
fi
