package newer;

/** The newer version of the record. */
public final class Order {
    public String item;
    public Long count;
    public String gift;
}
