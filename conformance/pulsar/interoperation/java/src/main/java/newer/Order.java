package newer;

/** The record as it is now. */
public final class Order {
    public String item;
    public Long count;
    public String gift;
}
