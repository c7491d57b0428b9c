
# Experiments, stored runs and their cells are listed by the program.
_iotrail_and_candidates() {
    local -a found shown
    local line
    for line in "${(@f)$(${~words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        found+=("${line%%$'\t'*}")
        shown+=("${(r:28:)${line%%$'\t'*}} -- ${line#*$'\t'}")
    done
    # In the given order, one per line.
    (( $#found )) && compadd -V candidates -l -d shown -a found && return
    _iotrail "$@"
}

if [ "$funcstack[1]" = "_iotrail" ]; then
    compdef _iotrail_and_candidates iotrail
    _iotrail_and_candidates "$@"
else
    compdef _iotrail_and_candidates iotrail
fi
